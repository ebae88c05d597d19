from pathlib import Path
from typing import Any

import pytest

from actors.metrics import ExecutionRecord, QueueRecord, Record
from actors.task import AgentId, TaskId, TaskType
from experiments.report import write_report

PLOTS = {"accuracy", "throughput", "final-answers", "queues", "forwards-and-splits", "tokens"}


def load(agent: int, waiting: int) -> Record:
    return QueueRecord(
        agent=AgentId(agent), phase="test", waiting_T=(waiting,), in_service=2, quality_T=(0.5,)
    )


def execution(agent: int, task_id: str) -> Record:
    return ExecutionRecord(
        agent=AgentId(agent),
        task_id=TaskId(task_id),
        task_type=TaskType("x"),
        phase="test",
        kind="executed",
        duration_s=1.0,
        execution_s=1.0,
        prompt_tokens=100,
        completion_tokens=5,
        calls=4,
        dropped_demonstrations=0,
        fallbacks=0,
        recall_skipped=0,
    )


def run(runs: Any, name: str, agents: int, types: int, finished: int, **folder: Any) -> Any:
    tasks = [runs.task(f"t{i}", task_type=f"a_rather_long_type_name_{i % types}") for i in range(3 * types)]
    results = [
        runs.result(task, correct=i % 2 == 0, finisher=i % agents, at_s=1 + i, steps=[runs.step(i % agents)])
        for i, task in enumerate(tasks[:finished])
    ]
    events = [(0.5 + i, load(i % agents, i % 7)) for i in range(2 * agents)]
    events += [(1.0 + i, execution(i % agents, f"t{i}")) for i in range(finished)]
    return runs.folder(name, tasks, results=results, events=events, marks=[("test", "begin", 0)], **folder)


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.mark.parametrize(("agents", "types"), [(1, 1), (3, 4), (50, 27)])
def test_a_report_has_every_plot_for_small_and_large_pools(runs: Any, agents: int, types: int) -> None:
    folder = run(runs, "r", agents, types, 3 * types, settings=runs.settings(agents=agents))
    path = write_report(folder)
    assert path == folder.path / "report" / "report.md"
    text = path.read_text()
    for name in PLOTS:
        assert f"({name}.png)" in text
        width, height = png_size(path.parent / f"{name}.png")
        assert width > 800
        assert height > 200
        assert (path.parent / f"{name}.png").stat().st_size > 5_000
    assert "(unfinished)" not in text
    assert f"| all | {3 * types} |" in text


def test_an_unfinished_simulated_run_says_both(runs: Any) -> None:
    folder = run(
        runs,
        "r",
        2,
        3,
        4,
        settings=runs.settings(kind="simulated"),
        machine={"cpu": "a chip", "gpus": [], "packages": {"ray": "1"}, "commit": None},
    )
    text = write_report(folder).read_text()
    assert "(unfinished)" in text
    assert "4 of 9 test tasks have ended" in text
    assert "no model answered" in text
    assert "| packages: ray | 1 |" in text
    assert "| commit | unknown |" in text


def test_a_run_without_a_result_has_a_report_without_plots(runs: Any) -> None:
    path = write_report(runs.folder("r", [runs.task("t")]))
    assert "nothing to plot" in path.read_text()
    assert not list(path.parent.glob("*.png"))


def test_a_second_report_takes_the_place_of_the_first(runs: Any) -> None:
    folder = run(runs, "r", 2, 2, 2)
    first = write_report(folder).read_text()
    assert "2 of 6" in first
    folder.add_results([runs.result(folder.tasks()[2], at_s=30)])
    folder.close()
    assert "3 of 6" in write_report(folder).read_text()
