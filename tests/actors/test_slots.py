"""Executor slots."""

import pytest

from actors.agent.slots import Held, Slots
from actors.task import AgentId
from tests.actors.samples import make_task


def held(name: str, since_s: float = 0.0) -> Held:
    return Held(task=make_task(name), since_s=since_s, doing="routing")


def test_slots_are_never_exceeded() -> None:
    slots = Slots(2)
    slots.hold(held("1"))
    slots.hold(held("2"))
    assert slots.free == 0
    with pytest.raises(AssertionError, match="no free slot"):
        slots.hold(held("3"))
    assert [task.task_id for task in slots.tasks()] == ["1", "2"]


def test_a_hand_over_without_a_slot_leaves_all_of_them_free() -> None:
    slots = Slots(1)
    slots.hold(Held(task=make_task("1"), since_s=1.0, doing="handing over", to=AgentId(2), in_slot=False))
    assert (len(slots), slots.free) == (0, 1)
    slots.hold(held("2"))
    assert (len(slots), slots.free) == (1, 0)
    slots.release(make_task("1").task_id, 2.0)
    assert (len(slots), slots.free) == (1, 0)


def test_release_frees_the_slot_and_ages_the_task() -> None:
    slots = Slots(1)
    slots.hold(held("1", since_s=2.0))
    assert slots.release(make_task("1").task_id, 5.0).age_s == 3.0
    assert slots.free == 1
    assert make_task("1").task_id not in slots
    with pytest.raises(KeyError):
        slots.release(make_task("1").task_id, 5.0)


def test_an_agent_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        Slots(0)
