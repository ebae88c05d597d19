"""What is sent to a cluster, who loads Ray, and what starting it leaves as it was."""

import os
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import ray
from ray._private.ray_constants import get_runtime_env_default_excludes
from ray._private.runtime_env.packaging import create_package

import actors
from actors.cluster.ray_connection import JOB_VARIABLE, ROOT, UPLOAD_EXCLUDES, connect
from actors.cluster.ray_settings import RaySettings
from actors.errors import ClusterError

UPLOAD_LIMIT_BYTES = 5_000_000


@pytest.mark.parametrize("excludes", [UPLOAD_EXCLUDES, ()], ids=["our driver", "ray job submit"])
def test_the_upload_is_small_and_complete(excludes: tuple[str, ...], tmp_path: Path) -> None:
    package = tmp_path / "upload.zip"
    everything = [*get_runtime_env_default_excludes(), *excludes]
    create_package(str(ROOT), package, include_gitignore=True, excludes=everything)
    assert package.stat().st_size < UPLOAD_LIMIT_BYTES
    names = set(zipfile.ZipFile(package).namelist())
    assert {"actors/agent/actor.py", "serving/build.py", "retrieval/build.py"} <= names
    assert {"experiments/__main__.py", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith((".venv/", ".git/", "runs/"))]


def test_only_the_runtime_on_ray_loads_ray() -> None:
    found = pkgutil.walk_packages(actors.__path__, "actors.")
    plain = [module.name for module in found if not module.name.startswith("actors.cluster.ray_")]
    assert {"actors.cluster.local", "actors.cluster.placement", "actors.agent.actor"} <= set(plain)
    code = (
        f"import importlib, sys\nfor name in {plain!r}: importlib.import_module(name)\n"
        f"assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_an_address_where_nothing_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise ConnectionError("nothing there")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ClusterError, match=r"'10\.0\.0\.9:6379' cannot be joined.*RAY_AUTH_MODE"):
        connect(RaySettings(address="10.0.0.9:6379"), local_cpus=1)


@pytest.mark.parametrize(
    ("in_job", "uploads"), [(False, True), (True, False)], ids=["from outside", "inside a job"]
)
def test_a_driver_uploads_the_checkout_unless_its_job_has(
    in_job: bool, uploads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(ray, "init", lambda **options: asked.update(options))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    if in_job:
        monkeypatch.setenv(JOB_VARIABLE, "{}")
    else:
        monkeypatch.delenv(JOB_VARIABLE, raising=False)
    assert connect(RaySettings(), local_cpus=1).kind == "joined"
    assert asked["address"] == "10.0.0.9:6379"
    assert ("runtime_env" in asked) == uploads


def test_a_ray_started_here_has_room_for_the_plan_and_says_its_auth_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(ray, "init", lambda **options: asked.update(options))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "")
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert connect(RaySettings(), local_cpus=99.5).kind == "started"
    assert asked["num_cpus"] == 100
    assert asked["address"] == "local"
    assert os.environ["RAY_AUTH_MODE"] == "disabled"


def test_a_ray_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_busy(**_: object) -> None:
        raise Exception("The node timed out.")  # noqa: TRY002 - Ray raises this very type

    monkeypatch.setattr(ray, "init", too_busy)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ClusterError, match="timed out"):
        connect(RaySettings(address="local"), local_cpus=1)


@pytest.mark.slow
def test_a_handler_of_sigterm_outlives_the_start_of_ray() -> None:
    code = """
import os, signal
from actors.cluster.ray_connection import connect, disconnect
from actors.cluster.ray_settings import RaySettings
signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
connection = connect(RaySettings(address="local", include_dashboard=False), local_cpus=1)
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)
disconnect(connection)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["mine", "mine"]), done.stderr
    assert "SIGTERM received" not in done.stderr


def test_unit_tests_cannot_start_ray() -> None:
    with pytest.raises(AssertionError, match="must not start Ray"):
        ray.init()
