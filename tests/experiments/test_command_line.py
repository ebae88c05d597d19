"""The commands as a user gives them, on the local runtime with the simulated pool."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.record import RunFolder

ROOT = Path(__file__).resolve().parents[2]
POOL = str(ROOT / "experiments/deals/pools/simulated-x3.yaml")


def run(runs_dir: Path, *more: str) -> int:
    return main(["run", "deals", "--pool", POOL, "--runtime", "local", "--runs-dir", str(runs_dir), *more])


def only_run(runs_dir: Path) -> RunFolder:
    (path,) = runs_dir.iterdir()
    return RunFolder.open(path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    runs_dir = tmp_path_factory.mktemp("runs")
    assert run(runs_dir, "--warmup", "24", "--test", "24", "--record-logs") == 0
    return only_run(runs_dir)


def test_a_run_finishes_every_task_once_and_saves_what_it_was(finished: RunFolder) -> None:
    assert {t.row.task_id for t in finished.tasks()} == {
        result.finished.outcome.task.task_id for result in finished.results()
    }
    assert len(finished.results()) == 48
    assert finished.settings().pool.name == "simulated-x3"
    assert [(mark.phase, mark.what) for mark in finished.marks()] == [
        ("warmup", "begin"),
        ("warmup", "end"),
        ("test", "begin"),
        ("test", "end"),
    ]


def test_recorded_logs_live_again(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--runs-dir", str(finished.path.parent)]
    assert main(["replay", finished.run_id, *where]) == 0
    assert capsys.readouterr().out.count("yes") == 3
    assert run(tmp_path, "--warmup", "0", "--test", "3") == 0
    assert main(["replay", only_run(tmp_path).run_id, "--runs-dir", str(tmp_path)]) == 1
    assert "--record-logs" in capsys.readouterr().err


def test_report_trace_compare_and_list_read_it(
    finished: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--runs-dir", str(finished.path.parent)]
    assert main(["report", finished.run_id, *where]) == 0
    task_id = finished.tasks()[-1].row.task_id
    assert main(["trace", finished.run_id, task_id, *where]) == 0
    assert main(["compare", finished.run_id, finished.run_id, *where]) == 0
    assert main(["list", *where]) == 0
    said = capsys.readouterr().out
    assert finished.run_id in said
    assert task_id in said
    assert "simulated" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nothing"], "nothing"),
        (["run", "deals", "--pool", "nowhere.yaml"], "nowhere.yaml"),
        (["run", "deals", "--pool", POOL, "--quality-weight", "-1"], "quality_weight"),
        (["run", "deals", "--pool", POOL, "--dataset", "bbh", "--data-dir", "/nowhere"], "/nowhere"),
        (["run", "deals", "--pool", POOL, "--types", "cooking"], "cooking"),
        (["run", "--resume", "never-was"], "never-was"),
        (["trace", "never-was", "t"], "never-was"),
    ],
)
def test_bad_input_is_a_clear_error_and_leaves_no_run(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--runs-dir", str(tmp_path / "runs")]) == 1
    assert re.search(says, capsys.readouterr().err)
    assert not (tmp_path / "runs").exists()


def test_run_wants_an_experiment_or_a_run_to_resume(tmp_path: Path) -> None:
    assert main(["run", "--runs-dir", str(tmp_path)]) == 2


@pytest.mark.parametrize("flags", [["--seed", "0"], ["--set", "test=5"], ["--record-logs"]], ids=" ".join)
def test_a_resumed_run_takes_no_settings(
    finished: RunFolder, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--runs-dir", str(finished.path.parent)]
    assert main(["run", "--resume", finished.run_id, *flags, *where]) == 2
    assert flags[0] in capsys.readouterr().out


def test_a_finished_run_starts_nothing_again(
    finished: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(*_: object) -> None:
        raise AssertionError("a cluster was started")

    monkeypatch.setattr("experiments.launch._cluster", nothing)
    assert main(["run", "--resume", finished.run_id, "--runs-dir", str(finished.path.parent)]) == 0
    assert "ended already" in capsys.readouterr().out


def start_slow(runs_dir: Path, *started_by: str) -> subprocess.Popen[bytes]:
    """A run that takes about half a minute, in a process of its own."""
    command = [sys.executable, "-m", "experiments", "run", "deals", "--pool", POOL, "--runtime", "local"]
    command += ["--runs-dir", str(runs_dir), "--warmup", "36", "--test", "36"]
    for agent in range(3):
        command += ["--set", f"pool.agents.{agent}.backend.options.service_s=0.4"]
    command = [*started_by, *command]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s and process.poll() is None:
        if any(path.stat().st_size for path in runs_dir.glob("*/results.jsonl")):
            return process
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the run wrote no result within a minute")


def test_a_run_in_the_background_of_a_shell_can_be_ended(tmp_path: Path) -> None:
    process = start_slow(tmp_path, "sh", "-c", """trap '' INT; exec "$@" """, "sh")
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=10) == 130


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_an_interrupted_run_resumes_with_every_task_once_and_results_unchanged(
    how: signal.Signals, tmp_path: Path
) -> None:
    process = start_slow(tmp_path)
    os.kill(process.pid, how)
    assert process.wait(timeout=10) == (-9 if how == signal.SIGKILL else 130)
    folder = only_run(tmp_path)
    before = (folder.path / "results.jsonl").read_bytes()
    stem = before[: before.rfind(b"\n") + 1]
    assert 0 < len(folder.results()) < 72
    assert main(["run", "--resume", folder.run_id, "--runs-dir", str(tmp_path)]) == 0
    after = (folder.path / "results.jsonl").read_bytes()
    assert after.startswith(stem)
    ids = [json.loads(line)["finished"]["outcome"]["task"]["task_id"] for line in after.splitlines()]
    assert sorted(ids) == sorted(task.row.task_id for task in folder.tasks())


def test_a_run_that_is_going_on_cannot_be_resumed_beside_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start_slow(tmp_path)
    try:
        assert main(["run", "--resume", only_run(tmp_path).run_id, "--runs-dir", str(tmp_path)]) == 1
        assert "another process" in capsys.readouterr().err
    finally:
        process.terminate()
        process.wait(timeout=10)


def test_poisson_arrivals_are_spread_over_time(tmp_path: Path) -> None:
    began_s = time.monotonic()
    arguments = ["--warmup", "0", "--test", "12", "--arrivals", "poisson", "--rate", "4"]
    assert run(tmp_path, *arguments) == 0
    last_s = only_run(tmp_path).tasks()[-1].arrival_s
    assert time.monotonic() - began_s > last_s > 0.5
