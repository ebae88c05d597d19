"""Typed queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agent.queues import TypedQueues, aged
from tests.actors.samples import TYPES, A, B, C, make_task


def test_the_longest_queue_goes_first_and_ties_go_by_type_order() -> None:
    queues = TypedQueues(TYPES)
    for name, kind in (("b1", B), ("c1", C), ("c2", C), ("a1", A)):
        queues.push(make_task(name, kind), 0.0)
    taken = [queues.pop_next("longest", 0.0).task_id for _ in range(4)]
    assert taken == ["c1", "a1", "b1", "c2"]
    assert len(queues) == 0


@given(st.lists(st.sampled_from((*TYPES, None)), max_size=60))
def test_pop_takes_the_oldest_of_the_longest(moves: list[str | None]) -> None:
    """Against a plain model: lists of names."""
    queues, model = TypedQueues(TYPES), {kind: [] for kind in TYPES}  # type: ignore[var-annotated]
    for number, kind in enumerate(moves):
        if kind is not None:
            queues.push(make_task(str(number), kind), 0.0)  # type: ignore[arg-type]
            model[kind].append(str(number))  # type: ignore[index]
        elif len(queues):
            longest = max(TYPES, key=lambda name: (len(model[name]), -TYPES.index(name)))
            assert queues.pop_next("longest", 0.0).task_id == model[longest].pop(0)
        assert queues.waiting() == tuple(len(model[name]) for name in TYPES)
        assert queues.waiting_T.tolist() == list(queues.waiting())
        assert len(queues) == sum(queues.waiting())
        assert [task.task_id for task in queues.tasks()] == [name for kind in TYPES for name in model[kind]]


def test_a_returned_task_goes_to_the_head() -> None:
    queues = TypedQueues(TYPES)
    queues.push(make_task("old"), 0.0)
    queues.push_front(make_task("returned"), 0.0)
    assert queues.pop_next("longest", 0.0).task_id == "returned"


def test_a_task_is_taken_out_wherever_it_waits() -> None:
    queues = TypedQueues(TYPES)
    for name in ("1", "2", "3"):
        queues.push(make_task(name, B), 1.0)
    taken = queues.remove(make_task("2").task_id, 4.0)
    assert taken is not None
    assert taken.age_s == 3.0
    assert make_task("2").task_id not in queues
    assert queues.remove(make_task("2").task_id, 4.0) is None
    assert [queues.pop_next("longest", 4.0).task_id for _ in range(2)] == ["1", "3"]


def test_waiting_makes_a_task_older_and_its_deadline_nearer() -> None:
    queues = TypedQueues(TYPES)
    queues.push(make_task("t", age_s=1.0, remaining_s=5.0), 10.0)
    task = queues.pop_next("longest", 12.5)
    assert (task.age_s, task.remaining_s) == (3.5, 2.5)


def test_an_unbounded_task_stays_unbounded() -> None:
    assert aged(make_task("t"), 3.0).remaining_s is None
    task = make_task("t")
    assert aged(task, 0.0) is task


def test_an_unknown_type_is_no_queue() -> None:
    with pytest.raises(KeyError):
        TypedQueues(TYPES).push(make_task("t", "unheard of"), 0.0)  # type: ignore[arg-type]
