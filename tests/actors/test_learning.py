"""Counts, and trajectories that wait for their verdict."""

import pytest

from actors.agent.learning import Learning, earned
from actors.config import AgentSettings, MemorySettings
from actors.routing.quality import Counts
from actors.task import Task, TaskId
from tests.actors.samples import agent, make_task, step_record

T1 = TaskId("t1")


def worked_task(name: str = "t1", steps: int = 1) -> Task:
    records = tuple(
        step_record(0, key_text=f"key {n}", demonstration=f"shown {n}", execution_s=2.0, duration_s=9.0)
        for n in range(steps)
    )
    return make_task(name, steps=records)


def learning(pending_limit: int = 10) -> Learning:
    return Learning(3, AgentSettings(memory=MemorySettings(pending_limit=pending_limit)))


def test_trajectories_are_remembered_on_success_only() -> None:
    for success in (True, False):
        mine = learning()
        assert mine.worked(worked_task(), 0) == 0
        confirmed = mine.credit(T1, 1, success=success)
        assert [t.trajectory_id for t in confirmed] == (["t1:0"] if success else [])
        assert mine.estimates.counts().successes_T == (0, int(success), 0)
        assert mine.estimates.counts().failures_T == (0, int(not success), 0)


def test_a_trajectory_carries_local_execution_time_only() -> None:
    mine = learning()
    mine.worked(worked_task(), 0)
    (trajectory,) = mine.credit(T1, 0, success=True)
    assert (trajectory.key_text, trajectory.text, trajectory.duration_s) == ("key 0", "shown 0", 2.0)
    assert trajectory.task_type == "a"


def test_every_step_here_is_remembered_and_the_task_counted_once() -> None:
    mine = learning()
    mine.worked(worked_task(steps=1), 0)
    mine.worked(worked_task(steps=2), 1)
    assert [t.trajectory_id for t in mine.credit(T1, 0, success=True)] == ["t1:0", "t1:1"]
    assert mine.estimates.counts().successes_T == (1, 0, 0)


def test_credit_is_idempotent() -> None:
    mine = learning()
    mine.worked(worked_task(), 0)
    assert len(mine.credit(T1, 0, success=True)) == 1
    before = mine.estimates.counts()
    assert mine.credit(T1, 0, success=True) == []
    assert mine.credit(T1, 0, success=False) == []
    assert mine.estimates.counts() == before


def test_frozen_means_that_nothing_changes() -> None:
    mine = learning()
    mine.worked(worked_task(), 0)
    mine.freeze(frozen=True)
    assert mine.credit(T1, 0, success=True) == []
    assert mine.worked(worked_task("t2"), 0) == 0
    assert mine.credit(TaskId("t2"), 0, success=False) == []
    assert mine.estimates.counts() == Counts(successes_T=(0, 0, 0), failures_T=(0, 0, 0))
    mine.freeze(frozen=False)
    assert mine.credit(T1, 0, success=True) == [], "what was out when it froze is forfeited"


def test_the_oldest_pending_trajectories_are_dropped_beyond_the_limit() -> None:
    mine = learning(pending_limit=2)
    dropped = [mine.worked(worked_task(f"t{n}"), 0) for n in (1, 2, 3)]
    assert dropped == [0, 0, 1]
    assert mine.credit(T1, 0, success=True) == []
    assert len(mine.credit(TaskId("t3"), 0, success=True)) == 1
    assert mine.estimates.counts().successes_T == (2, 0, 0), "the verdict counts all the same"


def test_a_run_that_goes_on_does_not_count_a_task_twice() -> None:
    mine = learning()
    mine.restore(Counts(successes_T=(1, 0, 0), failures_T=(0, 0, 0)), [T1])
    mine.credit(T1, 0, success=True)
    assert mine.estimates.counts().successes_T == (1, 0, 0)
    with pytest.raises(ValueError, match="do not fit"):
        mine.restore(Counts(successes_T=(1,), failures_T=(0,)), [])


def test_an_agent_earns_its_own_steps_that_were_carried_to_their_end() -> None:
    task = make_task("t1", steps=(step_record(0, "split"), step_record(1, "split"), step_record(0, "failed")))
    assert [t.trajectory_id for t in earned(agent(0), task)] == ["t1:0"]
