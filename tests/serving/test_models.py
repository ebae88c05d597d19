import multiprocessing
import time
from pathlib import Path

import pytest

from serving import models
from serving.errors import ReplicaStartError, UnknownModelError
from serving.models import KnownModel, resolve, status

NAME = "converted"
LOG = "conversions.txt"


def convert(package: Path, folder: Path) -> None:
    """Stands for a conversion: slow, in two files, and recorded beside the cache."""
    with (folder.parents[1] / LOG).open("a") as log:
        log.write("begun\n")
    (folder / "first").write_text("1")
    time.sleep(0.3)
    (folder / "second").write_text(str(package))


def convert_into_a_full_disk(package: Path, folder: Path) -> None:
    (folder / "first").write_text("1")
    raise OSError(28, "No space left on device")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path))
    known = KnownModel(name=NAME, package="pytest", module="pytest", convert=convert)
    monkeypatch.setitem(models.KNOWN_MODELS, NAME, known)
    return tmp_path


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRADEWINDS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models.cache_folder() == tmp_path / ".cache" / "tradewinds"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert models.cache_folder() == tmp_path / "xdg" / "tradewinds"
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path / "own"))
    assert models.cache_folder() == tmp_path / "own"


def test_a_known_model_is_converted_once(cache: Path) -> None:
    folder = Path(resolve(NAME))
    assert folder.is_relative_to(cache)
    assert {file.name for file in folder.iterdir()} == {"first", "second"}
    assert resolve(NAME) == str(folder)
    assert (cache / LOG).read_text() == "begun\n"


def test_two_processes_convert_once(cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=resolve, args=(NAME,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(20)
        assert process.exitcode == 0
    assert (cache / LOG).read_text() == "begun\n"


def test_a_conversion_killed_half_way_is_done_again(cache: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=resolve, args=(NAME,))
    process.start()
    while not list((cache / "models").glob("*.part-*/first")):
        time.sleep(0.01)
    process.kill()
    process.join()
    (state,) = [state for state in status() if state.name == NAME]
    assert not state.ready
    folder = Path(resolve(NAME))
    assert {file.name for file in folder.iterdir()} == {"first", "second"}
    assert not list((cache / "models").glob("*.part-*"))


def test_a_failed_conversion_names_model_and_remedy(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownModel(name=NAME, package="pytest", module="pytest", convert=convert_into_a_full_disk)
    monkeypatch.setitem(models.KNOWN_MODELS, NAME, known)
    with pytest.raises(ReplicaStartError, match=r"converted .*No space left.*TRADEWINDS_CACHE"):
        resolve(NAME)
    assert not (cache / "models" / NAME).exists()


def test_a_missing_package_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownModel(name=NAME, package="no-such-package", module="no_such_module", convert=convert)
    monkeypatch.setitem(models.KNOWN_MODELS, NAME, known)
    with pytest.raises(ReplicaStartError, match=r"install.*serving\.models prepare"):
        resolve(NAME)
    (state,) = [state for state in status() if state.name == NAME]
    assert not state.ready
    assert "install no-such-package" in state.remedy


def test_folders_and_hub_ids_pass(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "mine").mkdir()
    assert resolve(str(cache / "mine")) == str(cache / "mine")
    monkeypatch.chdir(cache)
    assert resolve("mine") == str(cache / "mine")
    assert resolve("Qwen/Qwen2.5-7B-Instruct") == "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize("model", ["", "smollm", "./no/folder", "/no/folder", "a/b/c", "../up", "a b/c"])
def test_anything_else_is_unknown_and_the_known_names_are_listed(model: str) -> None:
    with pytest.raises(UnknownModelError, match=r"smollm2-135m-instruct, tiny-random-llama, all-minilm"):
        resolve(model)


def test_the_command_line_says_what_is_missing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert models.main(["status"]) == 1
    shown = capsys.readouterr().out
    assert f"{NAME}: run: python -m serving.models prepare" in shown
    resolve(NAME)
    models.main(["status"])
    assert f"{NAME}: ready in {cache}" in capsys.readouterr().out
