"""A run as a job of a real Ray head, as `ray job submit` starts it, with tokens on both sides."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
RAY = Path(sys.executable).with_name("ray")
START_S, JOB_S, END_S = 120.0, 240.0, 5.0


@dataclass(frozen=True, kw_only=True)
class Head:
    """A Ray head of its own: nothing of it is shared with any other Ray on this machine."""

    dashboard: str
    environment: dict[str, str]

    def submit(self, entrypoint: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [str(RAY), "job", "submit", "--address", self.dashboard, "--working-dir", str(ROOT), "--"]
        return subprocess.run(
            [*command, *entrypoint],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=False,
        )


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def environment_of(folder: str) -> dict[str, str]:
    """Of head and submitter alike. Nothing of a Ray that this process may know."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = os.pathsep.join((str(RAY.parent), mine.get("PATH", "")))
    return mine | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "a token of the tests alone, as long as one is",
        "RAY_TMPDIR": folder,
        "PATH": path,
    }


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/version", timeout=5):
            return True
    except OSError as error:  # a refused token is an answer, too
        return getattr(error, "code", None) in {401, 403}


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process group that was started here, then whatever of its descendants is still there."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue
        break
    _, alive = psutil.wait_procs(family, timeout=5)
    for left in alive:
        left.kill()
    psutil.wait_procs(alive, timeout=5)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    folder = tempfile.mkdtemp(prefix="tw", dir="/tmp")  # short: Ray's sockets lie within
    port, dashboard, client, agent = free_ports(4)
    environment = environment_of(folder)
    command = [
        *(str(RAY), "start", "--head", "--block", "--disable-usage-stats", f"--port={port}"),
        *(f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}", f"--temp-dir={folder}"),
        *(f"--dashboard-agent-listen-port={agent}", "--num-cpus=2", f"--object-store-memory={100 << 20}"),
    ]
    log = Path(folder, "start.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        url = f"http://127.0.0.1:{dashboard}"
        try:
            deadline_s = time.monotonic() + START_S
            while not answers(url):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline_s, log.read_text()
                time.sleep(0.5)
            yield Head(dashboard=url, environment=environment)
        finally:
            end(process)
            shutil.rmtree(folder, ignore_errors=True)


def test_a_job_imports_the_checkout_and_joins_its_ray(head: Head) -> None:
    code = (
        "import os, actors, ray; from actors.cluster.ray_connection import connect; "
        "from actors.cluster.ray_settings import RaySettings; "
        "print('kind', connect(RaySettings(), local_cpus=1).kind); "
        "print('from the upload', os.path.samefile(os.path.dirname(actors.__path__[0]), os.getcwd())); "
        "print('cpus', ray.cluster_resources()['CPU'])"
    )
    done = head.submit(["python", "-c", code])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kind joined" in done.stdout
    assert "from the upload True" in done.stdout
    assert "cpus 2.0" in done.stdout


def test_a_job_runs_an_experiment(head: Head, tmp_path: Path) -> None:
    pool = "experiments/deals/pools/simulated-x3.yaml"
    run = ["python", "-m", "experiments", "run", "deals", "--pool", pool, "--warmup", "6", "--test", "18"]
    done = head.submit([*run, "--runs-dir", str(tmp_path)])
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = tmp_path.iterdir()
    assert (folder / "settings.json").is_file()


def test_without_the_token_nobody_gets_in(head: Head) -> None:
    stranger = Head(
        dashboard=head.dashboard,
        environment=head.environment | {"RAY_AUTH_TOKEN": "another token altogether"},
    )
    done = stranger.submit(["python", "-c", "1"])
    assert done.returncode != 0
    assert "Authentication" in done.stderr, done.stderr
