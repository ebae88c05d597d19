from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from actors.cluster.api import Finished
from actors.errors import SettingsError
from actors.task import AgentId, Outcome, StepRecord, TaskType
from experiments.datasets.registry import load
from experiments.phases import arrival_times, build_stream, learned_from, task_of, workers
from experiments.record import Result, StreamTask
from experiments.settings import ArrivalSettings, RunSettings, checked

FAMILIES = load("families", seed=1, rows_per_type=400)


def settings(agents: int = 3, **changes: Any) -> RunSettings:
    pool = {
        "name": "p",
        "agents": [{"name": f"a{i}", "backend": {"kind": "simulated"}} for i in range(agents)],
    }
    return checked({"experiment": "deals", "pool": pool} | changes, "settings")


def test_phases_are_disjoint_of_the_asked_size_and_balanced_over_types() -> None:
    stream = build_stream(FAMILIES, settings(warmup=50, test=31))
    for phase, count in (("warmup", 50), ("test", 31)):
        types = Counter(task.row.task_type for task in stream if task.phase == phase)
        assert sum(types.values()) == count
        assert max(types.values()) - min(types.values()) <= 1
    assert len({task.row.task_id for task in stream}) == 81


def test_the_stream_follows_from_the_seed_alone() -> None:
    assert build_stream(FAMILIES, settings(seed=3)) == build_stream(FAMILIES, settings(seed=3))
    assert build_stream(FAMILIES, settings(seed=3)) != build_stream(FAMILIES, settings(seed=4))


def test_arms_of_one_seed_see_the_same_test_rows_whatever_their_warm_up() -> None:
    def test_rows(warmup: int) -> set[str]:
        stream = build_stream(FAMILIES, settings(seed=5, warmup=warmup, test=60))
        return {task.row.task_id for task in stream if task.phase == "test"}

    assert test_rows(0) == test_rows(120)


def test_ingress_is_skewed_per_type_fixed_within_a_phase_and_new_in_the_next() -> None:
    stream = build_stream(FAMILIES, settings(warmup=2400, test=2400))

    def shares(phase: str, task_type: str, half: int) -> np.ndarray:
        where = [t.ingress for t in stream if t.phase == phase and t.row.task_type == task_type][half::2]
        return np.array([where.count(AgentId(n)) for n in range(3)]) / len(where)

    for task_type in FAMILIES.types:
        first, second = shares("test", task_type, 0), shares("test", task_type, 1)
        assert abs(first - second).max() < 0.25  # one distribution within the phase
    moved = [abs(shares("warmup", t, 0) - shares("test", t, 0)).max() for t in FAMILIES.types]
    assert max(moved) > 0.3  # another one in the other phase
    assert max(shares("test", t, 0).max() for t in FAMILIES.types) > 0.6  # Dirichlet(0.7) is skewed


def test_the_answer_stays_with_the_verifier() -> None:
    stream = build_stream(FAMILIES, settings())
    for each in stream:
        task = task_of(each)
        assert task.problem == each.row.problem
        assert not hasattr(task, "answer")


def test_poisson_arrivals_have_exponential_gaps() -> None:
    times_s = arrival_times(ArrivalSettings(kind="poisson", rate_per_s=4.0), 4000, np.random.default_rng(1))
    assert times_s == sorted(times_s)
    gaps_s = np.diff(times_s)
    assert stats.kstest(gaps_s, "expon", args=(0, 0.25)).pvalue > 0.001


def test_a_trace_is_repeated_to_fill(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("0\n1\n4\n")
    rng = np.random.default_rng(1)
    times_s = arrival_times(ArrivalSettings(kind="trace", trace=path), 7, rng)
    assert times_s == [0, 1, 4, 6, 7, 10, 12]
    path.write_text("2\n1\n")
    with pytest.raises(SettingsError, match="ascending"):
        arrival_times(ArrivalSettings(kind="trace", trace=path), 2, rng)
    for endless in ("0\ninf\n", "nan\n"):
        path.write_text(endless)
        with pytest.raises(SettingsError, match="finite"):
            arrival_times(ArrivalSettings(kind="trace", trace=path), 2, rng)
    path.write_text("soon\n")
    with pytest.raises(SettingsError, match=r"trace\.txt"):
        arrival_times(ArrivalSettings(kind="trace", trace=path), 2, rng)
    with pytest.raises(SettingsError, match=r"no arrival trace .*lost\.txt"):
        arrival_times(ArrivalSettings(kind="trace", trace=tmp_path / "lost.txt"), 2, rng)
    with pytest.raises(SettingsError, match=r"arrivals\.trace"):
        arrival_times(ArrivalSettings(kind="trace"), 2, rng)


@pytest.mark.parametrize("count", [40, 700])
def test_a_stretch_of_a_trace_has_the_asked_rate_and_begins_where_the_seed_says(
    tmp_path: Path, count: int
) -> None:
    gaps_s = np.random.default_rng(1).exponential(1, 300) * np.repeat([1.0, 9.0], 150)  # busy, then calm
    path = tmp_path / "trace.txt"
    path.write_text("".join(f"{at_s}\n" for at_s in gaps_s.cumsum()))
    asked = ArrivalSettings(kind="trace", trace=path, trace_rate_per_s=2.5)
    found = [arrival_times(asked, count, np.random.default_rng(seed)) for seed in range(6)]
    for times_s in found:
        assert len(times_s) == count
        assert times_s == sorted(times_s)
        assert count / times_s[-1] == pytest.approx(2.5)
    assert len({tuple(times_s) for times_s in found}) == len(found)
    shape = np.diff(found[0]) / np.diff(found[0]).sum()
    windows = [np.roll(np.diff(gaps_s.cumsum()), -n)[np.arange(1, count) % 299] for n in range(299)]
    assert min(abs(shape - window / window.sum()).max() for window in windows) < 1e-9, (
        "gaps in the trace's order"
    )


def test_a_trace_without_gaps_has_no_rate_and_a_stretch_without_any_is_even(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    asked = ArrivalSettings(kind="trace", trace=path, trace_rate_per_s=2.0)
    path.write_text("3\n3\n3\n")
    with pytest.raises(SettingsError, match="two times that differ"):
        arrival_times(asked, 2, np.random.default_rng(1))
    path.write_text("0\n" * 1000 + "9\n")
    assert arrival_times(asked, 4, np.random.default_rng(1)) == [0.5, 1.0, 1.5, 2.0]


def _result(stream_task: StreamTask, steps: tuple[StepRecord, ...], *, correct: bool) -> Result:
    from dataclasses import replace

    task = replace(task_of(stream_task), steps=steps)
    outcome = Outcome(task=task, finisher=steps[-1].agent, answer="x")
    finished = Finished(outcome=outcome, latency_s=1.0, finished_wall_s=1.0)
    return Result(phase=stream_task.phase, correct=correct, expected="x", finished=finished)


def test_an_interrupted_warm_up_is_learned_again_from_its_results() -> None:
    warmup = [task for task in build_stream(FAMILIES, settings(warmup=24)) if task.phase == "warmup"]
    split = StepRecord(agent=AgentId(0), kind="split", key_text="k0", demonstration="d0", execution_s=2.0)
    done = StepRecord(agent=AgentId(2), kind="executed", key_text="k2", demonstration="d2")
    failed = StepRecord(agent=AgentId(1), kind="failed")
    results = [
        _result(warmup[0], (split, done), correct=True),
        _result(warmup[1], (done,), correct=False),
        _result(warmup[2], (failed, done), correct=True),
    ]
    types = [TaskType(name) for name in FAMILIES.types]
    learned = learned_from(results, types)

    def count(agent: int, position: int) -> tuple[int, int]:
        c = types.index(TaskType(warmup[position].row.task_type))
        counts = learned[AgentId(agent)].counts
        return counts.successes_T[c], counts.failures_T[c]

    assert set(learned) == {0, 2}  # a failed step is no credit
    assert count(0, 0) == (1, 0)
    assert count(2, 0) == (1, 0)
    assert sum(learned[AgentId(2)].counts.failures_T) == 1
    assert [t.text for t in learned[AgentId(0)].trajectories] == ["d0"]
    assert [t.text for t in learned[AgentId(2)].trajectories] == ["d2", "d2"]
    assert workers(results[2].finished.outcome) == (2,)
