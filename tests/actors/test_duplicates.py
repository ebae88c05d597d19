"""Which messages and tasks were seen."""

from hypothesis import given
from hypothesis import strategies as st

from actors.agent.duplicates import WINDOW, RecentTasks, SeenMessages
from actors.messages import Address, Cancel, Envelope
from actors.task import TaskId


def message(sequence: int, sender: str = "intake:0", epoch: int = 1) -> Envelope:
    body = Cancel(task_id=TaskId("t"))
    return Envelope(sender=Address(sender), epoch=epoch, sequence=sequence, body=body)


@given(st.lists(st.tuples(st.sampled_from(("x", "y")), st.integers(1, 2), st.integers(0, 20))))
def test_each_message_is_new_once(deliveries: list[tuple[str, int, int]]) -> None:
    seen, model = SeenMessages(), set()
    for sender, epoch, sequence in deliveries:
        key = (sender, epoch, sequence)
        assert seen.first_time(message(sequence, sender, epoch)) == (key not in model)
        model.add(key)


def test_late_messages_within_the_window_are_still_new() -> None:
    seen = SeenMessages()
    for sequence in range(1, 3 * WINDOW):
        assert seen.first_time(message(sequence)) is True
    late = 3 * WINDOW - WINDOW // 2
    assert seen.first_time(message(late)) is False
    assert seen.first_time(message(3 * WINDOW + WINDOW // 2)) is True
    assert seen.first_time(message(3 * WINDOW)) is True


def test_what_is_remembered_is_bounded() -> None:
    seen = SeenMessages()
    for sequence in range(10 * WINDOW):
        seen.first_time(message(sequence))
    (recent,) = seen._recent.values()
    assert len(recent) <= 2 * WINDOW


def test_recent_tasks_forget_the_oldest() -> None:
    recent = RecentTasks(2)
    recent.update([TaskId("1"), TaskId("2"), TaskId("2"), TaskId("3")])
    assert [TaskId(name) in recent for name in "123"] == [False, True, True]
