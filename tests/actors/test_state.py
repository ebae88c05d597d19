"""One agent's state: events in, commands out. The lists of commands are compared whole."""

from dataclasses import replace

from actors.agent.events import (
    Abort,
    Delivered,
    Execute,
    Executed,
    Note,
    Send,
    Undelivered,
)
from actors.messages import (
    Cancel,
    Forward,
    Gossip,
    Report,
    SetPhase,
    Submit,
    agent_address,
)
from actors.metrics import ArrivalRecord, CountRecord, DecisionRecord, ExecutionRecord, QueueRecord
from actors.task import Outcome, ProgressPart, Task, TaskId
from tests.actors.samples import (
    INTAKE,
    A,
    B,
    C,
    OneAgent,
    agent,
    answered,
    busy,
    executed,
    failed,
    is_gossip,
    make_task,
    make_view,
    noted,
    sent,
    split_off,
    submit,
)

TO_1, TO_2 = agent_address(agent(1)), agent_address(agent(2))


def handing_over(**arguments: object) -> tuple[OneAgent, Task]:
    """One slot; `t` has been sent to neighbour 1 and the answer is out."""
    one = OneAgent(**arguments)  # type: ignore[arg-type]
    one.feed(one.message(SetPhase(phase="test", quality_weight=20.0, frozen=False)))
    one.feed(one.says(1, Gossip(view=make_view(1, quality=(0.9, 0.9, 0.9)))))
    commands = one.acts(one.message(submit("t")))
    handed = make_task("t", hops=1, forwards=1, previous=agent(0))
    assert [type(c) for c in commands] == [Send]
    (envelope,) = sent(commands, Forward)
    assert isinstance(envelope.body, Forward)
    assert envelope.body.task == handed
    assert replace(envelope.body.view, version=4) == one.state.view()
    return one, handed


# Arrival and dispatch


def test_an_idle_agent_executes_at_once() -> None:
    one = OneAgent()
    task = make_task("t", B)
    arrival = ArrivalRecord(
        agent=agent(0), task_id=task.task_id, task_type=B, phase="start", how="submitted", sender=INTAKE
    )
    commands = one.feed(one.message(Submit(task=task)))
    assert commands[0] == Note(record=arrival)
    (decision,) = noted(commands, DecisionRecord)
    assert isinstance(decision, DecisionRecord)
    assert (decision.chosen, decision.waiting, decision.reason) == (None, 1, "no score above the margin")
    assert commands[2] == Execute(task=task)
    assert [r.in_service for r in noted(commands, QueueRecord) if isinstance(r, QueueRecord)] == [1]
    assert [c.to for c in commands if isinstance(c, Send) and is_gossip(c)] == [TO_1, TO_2]
    assert len(commands) == 6


def test_the_longest_queue_supplies_the_next_task_and_ties_go_by_type_order() -> None:
    one = busy(out=())
    for name, kind in (("c1", C), ("b1", B), ("c2", C), ("b2", B), ("a1", A)):
        assert one.acts(one.message(submit(name, kind))) == []
    order = []
    running = "first"
    while True:
        commands = one.acts(executed(running))
        started = [c.task.task_id for c in commands if isinstance(c, Execute)]
        if not started:
            break
        (running,) = started
        order.append(running)
    assert order == ["b1", "c1", "a1", "b2", "c2"]


def test_slots_are_filled_and_never_exceeded() -> None:
    one = OneAgent(slots=2, out=())
    started = [len(one.acts(one.message(submit(str(n))))) for n in range(4)]
    assert started == [1, 1, 0, 0]
    assert one.state.view().in_service == 2
    assert one.state.view().waiting_T == (2, 0, 0)


def test_waiting_ages_a_task() -> None:
    one = busy(out=())
    one.feed(one.message(submit("t", age_s=1.0, remaining_s=9.0)))
    commands = one.acts(executed("first"), after_s=2.5)
    assert commands[-1] == Execute(task=make_task("t", age_s=3.5, remaining_s=6.5))


def test_a_task_past_its_deadline_is_reported_instead_of_executed() -> None:
    one = busy(out=())
    one.feed(one.message(submit("late", remaining_s=1.0)))
    one.feed(one.message(submit("open")))
    commands = one.acts(executed("first"), after_s=2.0)
    late = make_task("late", age_s=2.0, remaining_s=-1.0)
    error = "deadline passed before the task was executed"
    assert commands[1:] == [
        one.envelope(INTAKE, 1, Report(outcome=Outcome(task=late, finisher=agent(0), error=error)), late),
        Execute(task=make_task("open", age_s=2.0)),
    ]


def test_an_unknown_type_is_an_error_that_names_the_known_ones() -> None:
    one = OneAgent()
    task = make_task("t", "unheard of")  # type: ignore[arg-type]
    error = "unknown task type 'unheard of'; this plan has: a, b, c"
    assert one.acts(one.message(Submit(task=task))) == [
        one.envelope(INTAKE, 0, Report(outcome=Outcome(task=task, finisher=agent(0), error=error)), task)
    ]
    assert one.state.held() == []


def test_a_repeated_message_changes_nothing() -> None:
    one = OneAgent(out=(), into=())
    message = one.message(submit("t"))
    one.feed(message)
    record = CountRecord(agent=agent(0), phase="start", what="duplicate message")
    assert one.feed(message) == [Note(record=record)]
    assert [task.task_id for task in one.state.held()] == ["t"]


# The end of a step


def test_an_answer_is_reported_with_the_trail() -> None:
    one = busy(out=())
    done = make_task("first", steps=(answered(0).record,), age_s=2.0)
    commands = one.feed(executed("first"), after_s=2.0)
    (record,) = noted(commands, ExecutionRecord)
    assert isinstance(record, ExecutionRecord)
    assert (record.kind, record.calls) == ("executed", 0)
    report = Report(outcome=Outcome(task=done, finisher=agent(0), answer="42"))
    assert one.envelope(INTAKE, 0, report, done) in commands
    assert one.state.held() == []


def test_a_split_puts_the_rest_into_the_local_queue_with_hops_and_previous_cleared() -> None:
    one = OneAgent(out=())
    one.feed(
        one.says(1, Forward(task=make_task("t", hops=2, forwards=2, previous=agent(1)), view=make_view(1)))
    )
    commands = one.feed(Executed(task_id=TaskId("t"), result=split_off(0)))
    rest = make_task(
        "t",
        forwards=2,
        progress=(ProgressPart(agent=agent(0), part="part", result="partial"),),
        steps=(split_off(0).record,),
    )
    assert Execute(task=rest) in commands
    assert [r.how for r in noted(commands, ArrivalRecord) if isinstance(r, ArrivalRecord)] == ["split"]


def test_a_split_goes_behind_those_that_wait() -> None:
    one = busy(out=())
    one.feed(one.message(submit("second")))
    commands = one.acts(Executed(task_id=TaskId("first"), result=split_off(0)))
    assert commands == [Execute(task=make_task("second"))]


def test_a_failed_step_is_an_error_report_with_its_trail() -> None:
    one = busy(out=())
    done = make_task("first", steps=(failed(0, "replica down").record,))
    outcome = Outcome(task=done, finisher=agent(0), error="replica down")
    assert one.acts(Executed(task_id=TaskId("first"), result=failed(0, "replica down"))) == [
        one.envelope(INTAKE, 0, Report(outcome=outcome), done)
    ]


# Handing over


def test_a_hand_over_holds_its_slot_until_the_receiver_has_answered() -> None:
    one, _ = handing_over()
    assert one.acts(one.message(submit("next"))) == []
    assert one.state.view().in_service == 1
    view = make_view(1, version=2, waiting=(50, 0, 0), quality=(0.9, 0.9, 0.9))
    commands = one.acts(Delivered(task_id=TaskId("t"), forwards=1, to=agent(1), view=view))
    assert commands == [Execute(task=make_task("next"))], "the answer's view makes 1 too busy to forward to"
    assert [task.task_id for task in one.state.held()] == ["next"]


def test_an_undelivered_task_returns_and_its_receiver_is_avoided_until_it_is_heard_of() -> None:
    one, _ = handing_over(out=(1,))
    commands = one.feed(Undelivered(task_id=TaskId("t"), forwards=1, to=agent(1)))
    assert [r.how for r in noted(commands, ArrivalRecord) if isinstance(r, ArrivalRecord)] == ["returned"]
    assert Execute(task=make_task("t")) in commands, "kept as it was before: no hop, no previous agent"
    one.feed(executed("t"))
    assert [type(c) for c in one.acts(one.message(submit("u")))] == [Execute]
    one.feed(executed("u"))
    one.feed(one.says(1, Gossip(view=make_view(1, version=2, quality=(0.9, 0.9, 0.9)))))
    assert len(sent(one.acts(one.message(submit("v"))), Forward)) == 1


def test_a_returned_task_goes_before_those_that_came_later() -> None:
    one, _ = handing_over(out=(1,))
    one.feed(one.message(submit("later")))
    commands = one.acts(Undelivered(task_id=TaskId("t"), forwards=1, to=agent(1)))
    assert commands == [Execute(task=make_task("t"))]


def test_a_task_that_comes_round_before_its_answer_is_kept() -> None:
    """0 -> 1 -> 2 -> 0 may be quicker than the answer of 1."""
    one, handed = handing_over()
    back = replace(handed, hops=3, forwards=3, previous=agent(2))
    commands = one.acts(one.says(2, Forward(task=back, view=make_view(2))))
    assert commands == [Execute(task=back)]
    assert one.acts(Delivered(task_id=TaskId("t"), forwards=1, to=agent(1), view=make_view(1))) == []
    assert one.acts(Undelivered(task_id=TaskId("t"), forwards=1, to=agent(1))) == []
    assert [task.task_id for task in one.state.held()] == ["t"]
    assert len(sent(one.acts(executed("t")), Report)) == 1


def test_an_old_answer_does_not_end_a_new_hand_over() -> None:
    one, handed = handing_over()
    rest = replace(handed, hops=0, forwards=3, previous=None)
    commands = one.acts(one.says(2, Forward(task=rest, view=make_view(2))))
    assert len(sent(commands, Forward)) == 1, "it goes to 1 again"
    for old in (
        Delivered(task_id=TaskId("t"), forwards=1, to=agent(1), view=None),
        Undelivered(task_id=TaskId("t"), forwards=1, to=agent(1)),
    ):
        assert one.acts(old) == []
        assert one.state.view().in_service == 1
    one.feed(Delivered(task_id=TaskId("t"), forwards=4, to=agent(1), view=None))
    assert one.state.held() == []


def test_a_second_copy_of_a_task_is_dropped() -> None:
    """The sender heard no answer and sent it by another way as well."""
    one = busy(out=(), into=())
    one.feed(one.message(submit("queued")))
    for name in ("first", "queued"):
        copy = make_task(name, hops=1, forwards=1, previous=agent(2))
        commands = one.feed(one.says(2, Forward(task=copy, view=make_view(2))))
        assert commands == [Note(record=CountRecord(agent=agent(0), phase="start", what="task already here"))]
    assert [task.task_id for task in one.state.held()] == ["queued", "first"]


# Cancel


def test_cancel_in_the_queue_reports_at_once() -> None:
    one = busy(out=())
    one.feed(one.message(submit("t")))
    task = make_task("t", age_s=1.0)
    assert one.acts(one.message(Cancel(task_id=TaskId("t"))), after_s=1.0) == [
        one.envelope(
            INTAKE, 0, Report(outcome=Outcome(task=task, finisher=agent(0), error="cancelled")), task
        )
    ]


def test_cancel_in_execution_aborts_and_the_end_of_the_step_reports() -> None:
    one = busy(out=())
    assert one.acts(one.message(Cancel(task_id=TaskId("first")))) == [Abort(task_id=TaskId("first"))]
    (command,) = one.acts(Executed(task_id=TaskId("first"), result=failed(0, "whatever the abort left")))
    assert isinstance(command, Send)
    assert isinstance(command.envelope.body, Report)
    assert command.envelope.body.outcome.error == "cancelled"


def test_a_step_that_ended_before_its_abort_keeps_its_answer() -> None:
    one = busy(out=())
    one.feed(one.message(Cancel(task_id=TaskId("first"))))
    (envelope,) = sent(one.feed(executed("first")), Report)
    assert isinstance(envelope.body, Report)
    assert envelope.body.outcome.answer == "42"


def test_a_split_that_ended_before_its_abort_is_not_taken_up_again() -> None:
    one = busy(out=())
    one.feed(one.message(Cancel(task_id=TaskId("first"))))
    (envelope,) = sent(one.feed(Executed(task_id=TaskId("first"), result=split_off(0))), Report)
    assert isinstance(envelope.body, Report)
    assert envelope.body.outcome.error == "cancelled"
    assert one.state.held() == []


def test_cancel_during_a_hand_over_waits_for_its_end() -> None:
    one, _ = handing_over()
    assert one.acts(one.message(Cancel(task_id=TaskId("t")))) == []
    assert one.acts(Delivered(task_id=TaskId("t"), forwards=1, to=agent(1), view=None)) == []
    other, _ = handing_over()
    other.feed(other.message(Cancel(task_id=TaskId("t"))))
    (command,) = other.acts(Undelivered(task_id=TaskId("t"), forwards=1, to=agent(1)))
    assert isinstance(command, Send)
    assert isinstance(command.envelope.body, Report)
    assert command.envelope.body.outcome.error == "cancelled"


def test_a_cancel_that_is_faster_than_its_task_waits_for_it() -> None:
    one = OneAgent()
    assert one.acts(one.message(Cancel(task_id=TaskId("t")))) == []
    (command,) = one.acts(one.says(1, Forward(task=make_task("t", hops=1, forwards=1), view=make_view(1))))
    assert isinstance(command, Send)
    assert isinstance(command.envelope.body, Report)
    assert command.envelope.body.outcome.error == "cancelled"
