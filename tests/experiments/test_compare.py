from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from experiments.compare import compare, compared


def run(
    runs: Any,
    name: str,
    right: list[bool],
    *,
    settings: Any = None,
    tasks: Any = None,
    latency_s: float = 1.0,
) -> Any:
    tasks = tasks or [runs.task(f"t{i}") for i in range(len(right))]
    results = [
        runs.result(task, correct=correct, latency_s=latency_s, at_s=1 + i)
        for i, (task, correct) in enumerate(zip(tasks, right, strict=True))
    ]
    end_s = float(len(right))
    return runs.folder(
        name, tasks, settings=settings, results=results, marks=[("test", "begin", 0), ("test", "end", end_s)]
    )


def printed(a: Any, b: Any) -> str:
    output = StringIO()
    console = Console(file=output, width=200)
    for table in compare(a, b):
        console.print(table)
    return output.getvalue()


def test_accuracy_is_paired_by_task(runs: Any) -> None:
    a = run(runs, "a", [True] * 50 + [False] * 50)
    b = run(runs, "b", [True] * 60 + [False] * 40, latency_s=1.5)
    comparison = compared(a, b)
    assert comparison.common == 100
    assert comparison.accuracy is not None
    assert comparison.accuracy.value == pytest.approx(0.1)
    # 10 of 100 pairs differ, all the same way: standard error 0.03.
    assert comparison.accuracy.low == pytest.approx(0.04, abs=0.015)
    assert comparison.accuracy.high == pytest.approx(0.16, abs=0.015)
    assert (comparison.only_a_right, comparison.only_b_right) == (0, 10)
    assert comparison.latency_s is not None
    assert comparison.latency_s.value == pytest.approx(0.5)
    assert comparison.throughput_ratio == pytest.approx(1.0)
    assert comparison.warnings == ()
    assert comparison.settings == ()
    assert "+10.0 [+" in printed(a, b)


def test_only_common_tasks_count_and_a_different_stream_is_pointed_out(runs: Any) -> None:
    a = run(runs, "a", [True, True, False])
    tasks = [runs.task("t2"), runs.task("t1"), runs.task("new")]
    b = run(runs, "b", [True, True, True], tasks=tasks)
    comparison = compared(a, b)
    assert comparison.common == 2
    assert comparison.accuracy is not None
    assert comparison.accuracy.value == pytest.approx(0.5)
    assert any("test streams differ: 2 tasks" in warning for warning in comparison.warnings)


def test_runs_without_a_common_task_have_no_difference(runs: Any) -> None:
    comparison = compared(run(runs, "a", [True]), run(runs, "b", [True], tasks=[runs.task("other")]))
    assert comparison.accuracy is None
    assert printed(run(runs, "c", [True]), run(runs, "d", [True], tasks=[runs.task("other")]))


def test_differing_settings_backends_and_arrivals_are_listed(runs: Any) -> None:
    a = run(runs, "a", [True, False])
    settings = runs.settings(kind="simulated", seed=9)
    b = run(runs, "b", [True, False], settings=settings, tasks=[runs.task("t0"), runs.task("t1", ingress=1)])
    comparison = compared(a, b)
    assert ("seed", "1", "9") in comparison.settings
    assert ("pool.agents.0.backend.kind", "vllm_engine", "simulated") in comparison.settings
    assert any("backends differ" in warning for warning in comparison.warnings)
    assert any("arrive elsewhere" in warning and "t1" in warning for warning in comparison.warnings)
    text = printed(a, b)
    assert "pool.agents.0.backend.kind" in text
    assert "no model answered" in text


def test_an_unfinished_run_is_pointed_out(runs: Any) -> None:
    tasks = [runs.task("t0"), runs.task("t1")]
    a = run(runs, "a", [True, True])
    b = runs.folder("b", tasks, results=[runs.result(tasks[0])], marks=[("test", "begin", 0)])
    assert any("run B" in warning and "unfinished" in warning for warning in compared(a, b).warnings)
