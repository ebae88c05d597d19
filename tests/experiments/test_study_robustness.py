"""Studies under rough hands: rows are what they say, each cell counts once, and what cannot be run says why."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
import pytest
import yaml
from rich.console import Console

from actors.cluster.graphs import build_topology
from actors.errors import ClusterError, SettingsError
from experiments.__main__ import main
from experiments.datasets.rows import Row
from experiments.deals.studies import running
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.cells import Cell, Figures
from experiments.deals.studies.command import study_settings
from experiments.deals.studies.pools import capacity_per_s, pool
from experiments.deals.studies.running import run_cells
from experiments.deals.studies.study import Done, StudyFolder, sizes, write_study_report
from experiments.deals.studies.topologies import drawn
from experiments.deals.studies.votes import plurality, voted
from experiments.launch import only_one
from experiments.trial import Trial
from experiments.verdicts import FILE

SWEEP = ["run", "deals-vsweep", "--backend", "simulated", "--seeds", "1", "--warmup", "24", "--test", "24"]
SWEEP += ["--jobs", "1"]
FIGURES: Figures = {
    "accuracy": 0.5, "tasks": 40, "heaviest_share": 0.6, "throughput_per_min": 9.0, "latency_s": 1.0,
    "latency_p95_s": 2.0, "calls": 1.0, "utilisation": 0.5, "shares": [0.6, 0.2, 0.2],
}  # fmt: skip


def said_by(arguments: list[str], runs_dir: Path, capsys: pytest.CaptureFixture[str], status: int = 1) -> str:
    """What a command that must fail says, on both streams."""
    assert main([*arguments, "--runs-dir", str(runs_dir)]) == status
    said = capsys.readouterr()
    return " ".join((said.out + said.err).split())


def small(folder: Path, **changes: Any) -> StudyFolder:
    values: dict[str, Any] = {"backend": "simulated", "seeds": 1, "warmup": 24, "test": 24}
    return StudyFolder.create(folder, study_settings("deals-vsweep", **(values | changes)))


@pytest.mark.parametrize(
    ("study", "change", "fixed_by"),
    [
        ("deals-vsweep", "pool.settings.mechanism.quality_weight=0", "arm 'DEALS V=0'"),
        ("deals-vsweep", "pool.settings.mechanism={policy: keep}", "arm 'DEALS V=0'"),
        ("deals-vsweep", "seed=1", "--seed and --seeds"),
        ("deals-vsweep", "test=14", "--test"),
        ("deals-vsweep", "runtime=local", "--runtime"),
        ("deals-vsweep", "dataset={name: bbh}", "--dataset"),
        ("deals-vsweep", "dataset.half=tune", "--half"),
        ("deals-vsweep", "arrivals.kind=poisson", "points"),
        ("deals-vsweep", "pool.agents.0.backend.kind=simulated", "--pool"),
        ("deals-vsweep", "pool.agents.0.backend.options.success_rate=1", "--pool"),
        ("deals-accuracy", "ingress=1", "arm 'a1 alone'"),
        ("deals-topologies", "pool.topology.kind=ring", "points"),
        ("deals-throughput", "pool.settings.executor.kind=direct", "arm 'AgentNet sequential'"),
    ],
)
def test_a_change_of_what_a_row_is_named_for_is_refused(
    study: str, change: str, fixed_by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", study, "--backend", "simulated", "--seeds", "1", "--jobs", "1", "--set", change]
    said = said_by(command, tmp_path, capsys)
    assert change.partition("=")[0] in said
    assert fixed_by in said
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_what_may_be_changed_stands_in_the_report_beside_data_and_pool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = "pool.settings.gossip_interval_s=0.5"
    assert main([*SWEEP, "--types", "word_sorting", "--set", change, "--runs-dir", str(tmp_path)]) == 0
    report = next(tmp_path.glob("*/report/report.md")).read_text()
    for where in (report, "".join(capsys.readouterr().out)):
        assert change in where
        assert "simulated-unlike-x3" in where
        assert "families" in where
        assert "word_sorting" in where
    assert "1 seeds of 24 warm-up and 24 test tasks" in report
    settings = study_settings("deals-vsweep", backend="replay", half="tune")
    folder = StudyFolder.create(tmp_path, settings)
    write_study_report(folder, STUDIES["deals-vsweep"])
    assert "half tune" in (folder.path / "report" / "report.md").read_text()


def test_a_study_that_goes_on_elsewhere_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small(tmp_path)
    with only_one(folder.path, "held"):
        command = [sys.executable, "-m", "experiments", "run", "--resume", str(folder.path), "--jobs", "1"]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "is going on in another process" in " ".join(other.stderr.split())
    assert not folder.done()


def test_a_cell_that_stands_twice_counts_once_and_hides_no_missing_one(tmp_path: Path) -> None:
    folder = small(tmp_path, seeds=2)
    done = Done(point="", arm="DEALS V=0", seed=1, figures=FIGURES)
    for _ in range(12):
        folder.add(done)
    folder.add(replace(done, figures=FIGURES | {"accuracy": 0.9}))
    assert folder.done() == [done]
    write_study_report(folder, STUDIES["deals-vsweep"])
    assert "11 cells are missing" in (folder.path / "report" / "report.md").read_text()


def number_row(grader: Literal["number", "math"] = "number", answer: str = "42") -> Row:
    return Row(
        task_id="t", task_type="x", problem="?", answer=answer, answer_format="a number", grader=grader
    )


def test_a_vote_is_on_what_the_grader_reads() -> None:
    row = number_row()
    assert plurality(row, ["7", "The answer is 42.", "42"]) == 1
    assert plurality(row, ["no idea", "none", "42"]) == 2, "what cannot be read has no vote"
    assert plurality(row, ["", "no idea"]) == 1, "an error least of all"
    letter = replace(row, grader="letter", answer="B", choices=("A", "B", "C"))
    assert plurality(letter, ["A", "(B)", "The answer is B because it is so."]) == 1
    said = ("7", "The answer is 42.", "42")
    trial = Trial(
        task_ids_M=("t#0", "t#1", "t#2"),
        answers_M=said,
        type_M=np.zeros(3, dtype=int),
        finisher_M=np.arange(3),
        correct_M=np.array([False, True, True]),
        latency_s_M=np.ones(3),
        forwards_M=np.zeros(3, dtype=int),
        calls_M=np.ones(3, dtype=int),
        errors=0, makespan_s=60.0, call_s=1.0, slots=27, busy_s=1.0, warmup_steps=0, agents=3,
    )  # fmt: skip
    assert voted(trial, [row], 3).correct_M.tolist() == [True]


def test_a_vote_on_mathematics_is_by_value() -> None:
    row = number_row("math", r"\frac{1}{2}")
    assert plurality(row, [r"\boxed{7}", r"\boxed{0.5}", r"\boxed{\frac{1}{2}}"]) == 1


@pytest.mark.parametrize("flag", ["--warmup", "--test"])
def test_a_study_with_sizes_of_its_own_takes_no_others(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "deals-topologies", "--backend", "simulated", "--seeds", "1", flag, "14"]
    assert f"leave out {flag}" in said_by(command, tmp_path, capsys)
    assert study_settings("deals-topologies", backend="vllm", warmup=10, test=12).test == 12


def test_a_report_has_the_real_size_of_every_point() -> None:
    settings = study_settings("deals-topologies", backend="simulated")
    text = "\n".join(sizes(STUDIES["deals-topologies"].cells(settings)))
    assert "complete, 3 agents; chain, 3 agents; star, 3 agents: 20 seeds of 120 warm-up and 120 test" in text
    assert "ring, 1000 agents" in text
    assert "2 seeds of 40000 warm-up and 40000 test tasks" in text


@pytest.mark.parametrize("kind", ["4-regular", "small world", "Erdos-Renyi"])
def test_random_graphs_are_drawn_by_the_seed_and_connected(kind: str) -> None:
    settings = study_settings("deals-topologies", backend="simulated")
    graphs: dict[int, set[object]] = {}
    for cell in STUDIES["deals-topologies"].cells(settings):
        if cell.point == f"{kind}, 12 agents":
            graph = build_topology(12, cell.settings().pool.topology)  # raises where it is not connected
            graphs.setdefault(cell.seed, set()).add(graph.out_N)
    assert len(graphs) == 20
    assert {len(found) for found in graphs.values()} == {1}, "the arms of a seed share its graph"
    assert len(set.union(*graphs.values())) > 15, "and seeds do not"
    with pytest.raises(SettingsError, match="none of 200 drawn graphs"):
        drawn(12, {"kind": "erdos_renyi", "probability": 0.0}, 1)


def test_two_pools_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = []
    for rate in (0.2, 0.9):
        backend = {"kind": "simulated", "options": {"success_rate": rate, "service_s": 1.0}}
        raw = {"name": "mine", "agents": [{"name": f"a{n}", "backend": backend} for n in range(2)]}
        paths.append(tmp_path / f"{rate}.yaml")
        paths[-1].write_text(yaml.safe_dump(raw))
    with pytest.raises(SettingsError, match="2 pools are named 'mine'"):
        study_settings("deals-accuracy", pools=paths)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deals-vsweep", "--backend", "replay", "--data-dir", "nowhere"], "nowhere"),
        (["deals-vsweep", "--backend", "simulated", "--types", "nonsense"], "nonsense"),
        (["deals-vsweep", "--backend", "simulated", "--set", "foo.bar=3"], "foo"),
        (
            ["deals-vsweep", "--backend", "simulated", "--set", "pool.settings.mechanism.warmup_policy=x"],
            "warmup_policy",
        ),
        (["deals-vsweep", "--backend", "vllm", "--types", "word_sorting", "--dataset", "bbh"], "bbh"),
        (["deals-vsweep", "--backend", "simulated", "--set", "pool.topology.kind=edges"], "topology 'edges'"),
        (["deals-vsweep", "--backend", "simulated", "--set", "pool.topology.kind=k_regular"], "k_regular"),
        (["deals-vsweep", "--backend", "simulated", "--seed", "-1"], "--seed must be at least 0"),
        (["deals-vsweep", "--backend", "simulated", "--jobs", "-3"], "--jobs must be at least 1"),
        (["deals-vsweep", "--backend", "simulated", "--jobs", "0"], "--jobs must be at least 1"),
        (["deals-vsweep", "--backend", "vllm", "--jobs", "4"], "leave out --jobs"),
        (["deals-vsweep", "--backend", "simulated", "--rate", "5"], "has no use for --rate"),
        (["deals", "--quality-weight", "20", "20"], "one V twice"),
        (["deals", "--rate", "5"], "--rate is of --arrivals poisson"),
        (["nosuch"], "deals-vsweep"),
    ],
)
def test_what_cannot_be_run_leaves_no_folder(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path / "cache"))
    runs_dir = tmp_path / "runs"
    assert said in said_by(["run", *arguments], runs_dir, capsys)
    assert not runs_dir.exists()


def test_more_tasks_than_there_are_leave_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(os.environ.get("TRADEWINDS_DATA_DIR", "../shared/data"))
    if not (folder / FILE).is_file():
        pytest.skip(f"recorded MMLU-Pro verdicts are not at {folder}; set TRADEWINDS_DATA_DIR")
    command = ["run", "deals-vsweep", "--backend", "replay", "--data-dir", str(folder), "--test", "100000"]
    runs_dir = tmp_path / "runs"
    assert "were asked for; ask for fewer" in said_by(command, runs_dir, capsys)
    assert not runs_dir.exists()


def test_a_data_folder_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = study_settings("deals-vsweep", backend="replay", data_dir=Path("data"))
    assert settings.data_dir == tmp_path / "data"


def test_a_counterfactual_takes_no_other_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "deals-counterfactual", "RUN", "--backend", "vllm", "--pool", "x", "--jobs", "7"]
    said = said_by([*command, "--half", "tune"], tmp_path, capsys, status=2)
    for flag in ("--backend", "--pool", "--jobs", "--half"):
        assert flag in said


def test_a_pool_with_a_time_that_is_none_is_refused() -> None:
    raw = json.loads(json.dumps(pool("simulated-unlike-x3")))
    raw["agents"][1]["backend"]["options"]["service_s"] = "abc"
    with pytest.raises(SettingsError, match="'a2' of pool 'simulated-unlike-x3': service_s"):
        capacity_per_s(raw)


@pytest.mark.parametrize("flags", [["--tasks", "0"], ["--agents", "0"], ["--agents", "4"]])
def test_a_benchmark_of_nothing_is_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perf", "simulation", *flags]) == 1
    assert "--agents must be above 4, --tasks at least 1" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "line",
    [
        b'{"point": "", "arm": "DEALS V=0", "seed": 1, "figures": {}}\n',
        b'{"point": "", "arm": "DEALS V=0\xff", "seed": 1, "figures": {"accuracy": 1}}\n',
        b'{"point": "", "arm": "DEALS V=0", "seed": 1, "figures": null}\n',
    ],
)
def test_a_damaged_line_is_a_missing_cell(
    line: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small(tmp_path)
    folder.add(Done(point="", arm="DEALS V=80", seed=1, figures=FIGURES))
    with (folder.path / "cells.jsonl").open("ab") as file:
        file.write(line)
    assert main(["report", folder.path.name, "--runs-dir", str(tmp_path)]) == 0
    assert "5 cells are missing" in (folder.path / "report" / "report.md").read_text()


def test_a_report_of_a_spoilt_folder_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small(tmp_path)
    folder.add(Done(point="", arm="DEALS V=80", seed=1, figures={"accuracy": 0.5}))
    said = said_by(["report", folder.path.name], tmp_path, capsys)
    assert "cell '|DEALS V=80|1' has no figure" in said
    settings = json.loads((folder.path / "settings.json").read_text())
    (folder.path / "settings.json").write_text(json.dumps(settings | {"study": "nosuch"}))
    for command in (["report", folder.path.name], ["run", "--resume", folder.path.name]):
        assert "no study 'nosuch'; known: deals-accuracy" in said_by(command, tmp_path, capsys)


def test_a_lost_machine_is_unknown_and_no_other(tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, study_settings("deals-vsweep", backend="vllm", seeds=1))
    (folder.path / "machine.json").unlink()
    write_study_report(folder, STUDIES["deals-vsweep"])
    assert "vLLM on an unknown machine" in (folder.path / "report" / "report.md").read_text()


def _dies(cell: Cell) -> Figures:
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return FIGURES


def test_the_end_of_a_worker_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_cell", _dies)
    folder = small(tmp_path)
    cells = STUDIES["deals-vsweep"].cells(folder.settings())
    with pytest.raises(ClusterError, match=r"memory.*--resume"):
        run_cells(folder, cells, 2, Console(quiet=True))


def _left(group: int, patience_s: float) -> list[int]:
    """What of a process group still runs after a while, without those that have ended and are not waited for."""
    until = time.monotonic() + patience_s
    while True:
        left = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process.pid)
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


def test_a_killed_study_leaves_no_worker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "run", "deals-vsweep", "--backend", "simulated"]
    command += ["--seeds", "200", "--jobs", "2", "--runs-dir", str(tmp_path)]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("*/cells.jsonl")) and time.monotonic() < until:
            time.sleep(0.1)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        assert _left(started.pid, patience_s=20) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
