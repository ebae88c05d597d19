"""Trials, whole runs under virtual time, and where and when tasks enter."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actors.cluster.api import Verdict
from actors.cluster.simulation import START_WALL_S
from actors.errors import SettingsError
from actors.task import AgentId, TaskId, TaskType
from experiments.admission import Admission
from experiments.compare import compared
from experiments.datasets.halves import halved
from experiments.datasets.registry import load
from experiments.launch import execute, load_data, new_run
from experiments.phases import build_stream
from experiments.pools import plan_of
from experiments.replay import replay_logs
from experiments.report import write_report
from experiments.settings import RunSettings, checked, load_pool
from experiments.summary import summarise
from experiments.trial import Trial, run_trial

POOL = Path("experiments/deals/pools/simulated-unlike-x3.yaml")


def settings_of(**changes: Any) -> RunSettings:
    values = {
        "experiment": "deals",
        "pool": load_pool(POOL),
        "runtime": "simulation",
        "warmup": 240,
        "test": 120,
    }
    return checked(values | changes, "here")


def trial(**changes: Any) -> Trial:
    settings = settings_of(**changes)
    data_set = load_data(settings.dataset, warmup=settings.warmup, test=settings.test, seed=settings.seed)
    stream = build_stream(data_set, settings)
    return run_trial(plan_of(settings, [task.row for task in stream], {}), stream, settings)


def routed(**mechanism: Any) -> dict[str, Any]:
    pool = load_pool(POOL)
    pool["settings"]["mechanism"] |= mechanism
    return {"pool": pool}


def test_a_trial_has_a_row_for_each_test_task() -> None:
    ended = trial()
    assert len(set(ended.task_ids_M)) == 120
    columns = (
        ended.type_M,
        ended.finisher_M,
        ended.correct_M,
        ended.latency_s_M,
        ended.forwards_M,
        ended.calls_M,
    )
    assert {len(column) for column in columns} == {120}
    assert (ended.errors, ended.slots, ended.agents) == (0, 27, 3)
    assert ended.warmup_steps == 240
    assert ended.shares_A.sum() == pytest.approx(1.0)
    assert 0 < ended.utilisation <= 1
    assert ended.throughput_per_min == pytest.approx(120 / ended.makespan_s * 60)


def test_quality_pays_and_the_same_seed_gives_the_same_trial() -> None:
    backlog_only, with_quality = trial(**routed(quality_weight=0)), trial(**routed(quality_weight=80))
    assert with_quality.accuracy > backlog_only.accuracy + 0.15
    again = trial(**routed(quality_weight=80))
    assert again.task_ids_M == with_quality.task_ids_M
    assert (again.latency_s_M == with_quality.latency_s_M).all()


def test_all_tasks_may_enter_at_one_agent_and_stay() -> None:
    ended = trial(ingress=1, **routed(policy="keep"))
    assert set(ended.finisher_M.tolist()) == {1}
    with pytest.raises(SettingsError, match="ingress is agent 3, but the pool has 3"):
        trial(ingress=3)


def test_a_closed_stream_is_as_long_as_its_tasks_one_after_the_other() -> None:
    one = trial(arrivals={"kind": "closed", "under_way": 1}, **routed(policy="keep"))
    assert one.makespan_s == pytest.approx(one.latency_s_M.sum(), rel=0.01)
    five = trial(arrivals={"kind": "closed", "under_way": 5}, **routed(policy="keep"))
    assert 3.0 < one.makespan_s / five.makespan_s < 5.0


def test_learning_in_the_test_helps_where_nothing_was_learned_before() -> None:
    frozen, online = (
        trial(warmup=0, test=600, online=online, **routed(quality_weight=20)) for online in (False, True)
    )
    assert online.accuracy > frozen.accuracy + 0.05


def test_the_central_pick_is_the_agent_with_most_successes() -> None:
    settings = settings_of(ingress="best_ability")
    stream = build_stream(load("families", rows_per_type=60), settings)
    task = stream[0]
    admission = Admission(settings)
    assert admission.agent(task) == task.ingress, "nothing is known yet"

    def verdict(agent: int, success: bool = True) -> None:
        admission.verdict(
            Verdict(
                task_id=TaskId("t"),
                task_type=TaskType(task.row.task_type),
                agents=(AgentId(agent),),
                success=success,
            )
        )

    verdict(2)
    assert admission.agent(task) == 2
    verdict(1)
    assert admission.agent(task) == 1, "a tie goes to the smallest index"
    verdict(2)
    verdict(1, success=False)
    assert admission.agent(task) == 2
    assert Admission(settings_of()).agent(task) == task.ingress


# Whole runs


def test_a_run_under_virtual_time_leaves_a_folder_like_any_other(tmp_path: Path) -> None:
    settings = settings_of(warmup=24, test=24)
    folder = new_run(settings, tmp_path)
    execute(folder, Console(quiet=True))
    summary = summarise(folder)
    assert summary.complete
    assert summary.test.finished == 24
    assert "times are virtual" in summary.backend_label
    assert any("times are virtual" in note for note in summary.notes)
    assert all(mark.wall_s >= START_WALL_S for mark in folder.marks())
    kinds = Counter(type(stamped.record).__name__ for stamped in folder.events())
    assert kinds["ExecutionRecord"] == 48
    assert write_report(folder).is_file()
    execute(folder, Console(quiet=True))
    assert len(folder.results()) == 48, "nothing is done twice"
    other = new_run(settings, tmp_path)
    execute(other, Console(quiet=True))
    same = compared(folder, other)
    assert same.accuracy is not None
    assert same.latency_s is not None
    assert (same.common, same.accuracy.value, same.latency_s.value) == (24, 0, 0)


def test_a_pool_of_real_engines_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    pool = load_pool(POOL)
    pool["agents"][1]["backend"] = {"kind": "vllm_engine", "model": "smollm2-135m-instruct"}
    with pytest.raises(SettingsError, match=r"agent 'a2' of pool .*works in real time only"):
        new_run(settings_of(pool=pool), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_log_of_a_run_under_virtual_time_is_lived_again(tmp_path: Path) -> None:
    folder = new_run(settings_of(warmup=24, test=24, record_logs=True), tmp_path)
    execute(folder, Console(quiet=True))
    table, same = replay_logs(folder)
    assert same
    assert table.row_count == 3


# Halves


def test_no_row_is_in_both_halves_and_seeds_do_not_move_it() -> None:
    data_set = load("families", rows_per_type=50)
    tune, report = halved(data_set, "tune"), halved(data_set, "report")
    tuned = {row.task_id for row in tune.rows}
    tested = {row.task_id for row in report.rows if row.part == "test"}
    warmed = {row.task_id for row in report.rows if row.part == "warm_up"}
    assert tuned == warmed
    assert not tuned & tested
    assert tuned | tested == {row.task_id for row in data_set.rows}
    for name in data_set.types:
        assert len(tune.rows_of(name)) == 20
    shuffled = halved(data_set, "tune")
    assert {row.task_id for row in shuffled.rows} == tuned
    assert halved(data_set, "all") is data_set


def test_a_reported_test_never_asks_a_tuning_row(tmp_path: Path) -> None:
    settings = settings_of(dataset={"half": "report"})
    data_set = load_data(settings.dataset, warmup=240, test=120, seed=1)
    tuning = {row.task_id for row in halved(load("families", rows_per_type=200), "tune").rows}
    stream = build_stream(data_set, settings)
    assert {task.row.task_id in tuning for task in stream if task.phase == "test"} == {False}
    assert {task.row.task_id in tuning for task in stream if task.phase == "warmup"} == {True}
