"""Joins a running Ray, or starts one in this process's care; leaves each as it was found."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ray
from ray.exceptions import RayError

from actors.cluster.ray_settings import RaySettings
from actors.errors import ClusterError

ROOT = Path(__file__).resolve().parents[2]
"""The checkout (or its copy, inside a job): what the workers import from."""
UPLOAD_EXCLUDES = (
    ".git",
    ".venv",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "/runs",
    "/docs",
    "/tests",
    "*.parquet",
    "*.gguf",
    "*.safetensors",
)
"""Left out of the upload, in gitignore's syntax; `.gitignore` counts too."""
JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set by `ray job submit`, which has then uploaded the checkout already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConnection:
    """What there was before: decides what `disconnect` does."""

    kind: Literal["started", "joined", "found"]
    """A Ray started here; a running one joined; this process was connected already."""


def connect(settings: RaySettings, *, local_cpus: float) -> RayConnection:
    """Connects this process. A Ray started here offers at least `local_cpus` logical CPUs.

    Raises ClusterError naming the address that cannot be joined.
    """
    if ray.is_initialized():
        return RayConnection(kind="found")
    address = settings.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": settings.log_to_driver, "logging_level": "WARNING"}
    if address == "local":
        _start(settings, options, local_cpus)
        return RayConnection(kind="started")
    if JOB_VARIABLE not in os.environ:
        options["runtime_env"] = {"working_dir": str(ROOT), "excludes": list(UPLOAD_EXCLUDES)}
    try:
        with _sigterm_kept():
            ray.init(address=address, **options)
    except (RayError, ConnectionError, RuntimeError, ValueError) as error:
        mode = os.environ.get("RAY_AUTH_MODE", "unset")
        raise ClusterError(
            f"Ray at {address!r} cannot be joined ({error}): check the address, and that RAY_AUTH_MODE "
            f"(here {mode}) and the token are the same on both sides"
        ) from error
    return RayConnection(kind="joined")


def disconnect(connection: RayConnection) -> None:
    """Ends a Ray that was started here, leaves one that was joined, keeps a connection that was found."""
    if connection.kind != "found" and ray.is_initialized():
        ray.shutdown()


def _start(settings: RaySettings, options: dict[str, Any], local_cpus: float) -> None:
    # Said outright: by default Ray would switch tokens on for this process and write one to the home folder.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    # Workers import the checkout itself, without a copy: relative paths in a pool file go on to work.
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    try:
        with _sigterm_kept():
            ray.init(
                address="local",
                num_cpus=max(os.cpu_count() or 1, int(local_cpus) + 1),
                include_dashboard=settings.include_dashboard,
                object_store_memory=settings.object_store_memory_bytes,
                runtime_env={"env_vars": {"PYTHONPATH": path}},
                **options,
            )
    except Exception as error:  # also of no type of its own: a machine too busy for Ray's processes, say
        raise ClusterError(
            f"Ray could not be started on this machine: {error} Try again when it is less busy, "
            f"or use runtime local"
        ) from error


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself, here and below Python; a handler that was there before gets it back, so that
    a run still ends in order."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
