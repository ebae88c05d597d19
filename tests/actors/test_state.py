"""One agent's state: events in, commands out. The lists of commands are compared whole."""

from dataclasses import replace

import numpy as np
import pytest

from actors.agent.events import (
    Abort,
    Command,
    Delivered,
    Execute,
    Executed,
    Note,
    Remember,
    Restore,
    Send,
    Undelivered,
    Wake,
    Woken,
)
from actors.config import AgentSettings
from actors.mechanism import (
    Dispatched,
    Keep,
    LocalView,
    MechanismCommand,
    MechanismEvent,
    PeerSaid,
    SetTimer,
    Tell,
    TimerFired,
)
from actors.messages import (
    Cancel,
    Credit,
    Forward,
    Gossip,
    MechanismBody,
    Report,
    SetPhase,
    Submit,
    agent_address,
)
from actors.metrics import ArrivalRecord, CountRecord, DecisionRecord, ExecutionRecord, QueueRecord
from actors.routing.quality import Counts
from actors.task import Outcome, ProgressPart, Task, TaskId
from retrieval.api import Trajectory
from tests.actors.samples import (
    INTAKE,
    A,
    B,
    C,
    OneAgent,
    agent,
    answered,
    failed,
    is_gossip,
    make_task,
    make_view,
    noted,
    sent,
    split_off,
    without_notes,
)

TO_1, TO_2 = agent_address(agent(1)), agent_address(agent(2))


def submit(name: str, kind: str = "a", **changes: object) -> Submit:
    return Submit(task=make_task(name, kind, **changes))  # type: ignore[arg-type]


def busy(**arguments: object) -> OneAgent:
    """One slot, and `first` is executed in it."""
    one = OneAgent(**arguments)  # type: ignore[arg-type]
    assert one.acts(one.message(submit("first"))) == [Execute(task=make_task("first"))]
    return one


def executed(name: str, number: int = 0) -> Executed:
    return Executed(task_id=TaskId(name), result=answered(number))


def counts(commands: list[Command]) -> list[str]:
    return [r.what for r in noted(commands, CountRecord) if isinstance(r, CountRecord)]


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
    assert envelope.body.view == one.state.view()
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


# Learning


def credit(name: str, *, success: bool = True, kind: str = "a") -> Credit:
    return Credit(task_id=TaskId(name), task_type=kind, success=success)  # type: ignore[arg-type]


def test_a_success_is_counted_and_its_trajectory_remembered() -> None:
    one = busy(out=(), into=())
    one.feed(executed("first"))
    trajectory = Trajectory(
        trajectory_id="first:0", task_type="a", key_text="key", text="shown", duration_s=0.0
    )
    assert one.acts(one.message(credit("first"))) == [Remember(trajectory=trajectory)]
    assert one.acts(one.message(credit("first"))) == []
    assert one.state.learning.estimates.counts() == Counts(successes_T=(1, 0, 0), failures_T=(0, 0, 0))


def test_a_failure_is_counted_and_nothing_remembered() -> None:
    one = busy(out=(), into=())
    one.feed(executed("first"))
    assert one.acts(one.message(credit("first", success=False))) == []
    assert one.state.learning.estimates.counts().failures_T == (1, 0, 0)


def test_a_frozen_agent_learns_nothing() -> None:
    one = busy(out=(), into=())
    one.feed(executed("first"))
    one.feed(one.message(SetPhase(phase="test", quality_weight=20.0, frozen=True)))
    assert one.acts(one.message(credit("first"))) == []
    assert one.state.learning.estimates.counts() == Counts(successes_T=(0, 0, 0), failures_T=(0, 0, 0))


def test_a_verdict_on_an_unknown_type_is_counted_and_harmless() -> None:
    one = OneAgent(out=(), into=())
    assert counts(one.feed(one.message(credit("t", kind="unheard of")))) == [
        "credit for an unknown task type"
    ]


def test_what_was_learned_before_counts_in_decisions() -> None:
    one = OneAgent()
    one.feed(Restore(counts=Counts(successes_T=(8, 0, 0), failures_T=(0, 0, 0)), credited=(TaskId("old"),)))
    assert one.state.view().quality_T == (0.9, 0.5, 0.5)
    one.feed(one.message(credit("old")))
    assert one.state.view().quality_T == (0.9, 0.5, 0.5)


def test_dropped_pending_trajectories_are_counted() -> None:
    settings = AgentSettings()
    memory = settings.memory.model_copy(update={"pending_limit": 1})
    one = busy(out=(), settings=settings.model_copy(update={"memory": memory}))
    one.feed(executed("first"))
    one.feed(one.message(submit("second")))
    assert counts(one.feed(executed("second"))) == ["pending trajectory dropped"]


# Gossip


def gossip_of(commands: list[Command]) -> list[Gossip]:
    return [e.body for e in sent(commands, Gossip) if isinstance(e.body, Gossip)]


def test_gossip_goes_out_on_change_and_at_most_once_an_interval() -> None:
    one = OneAgent(into=(1,), out=(), slots=9)
    assert len(gossip_of(one.feed(one.message(submit("1"))))) == 1
    burst = [one.feed(one.message(submit(str(n))), after_s=0.01) for n in (2, 3, 4)]
    assert [len(gossip_of(commands)) for commands in burst] == [0, 0, 0]
    wakes = [c for commands in burst for c in commands if isinstance(c, Wake)]
    assert wakes == [Wake(key="gossip", after_s=pytest.approx(0.04))]  # type: ignore[arg-type]
    (told,) = gossip_of(one.feed(Woken(key="gossip"), after_s=0.02))
    assert told.view == one.state.view()
    assert told.view.in_service == 4
    assert one.feed(Woken(key="gossip"), after_s=1.0) == [], "nothing has changed"


def test_gossip_is_repeated_for_no_event_that_changes_nothing() -> None:
    one = OneAgent(into=(1,), out=(1,))
    one.feed(one.message(submit("1")))
    assert one.feed(one.says(1, Gossip(view=make_view(1))), after_s=1.0) == []


def test_a_new_phase_is_told_though_nothing_else_changed() -> None:
    one = OneAgent(into=(1,), out=())
    one.feed(one.message(submit("1")))
    phase = SetPhase(phase="test", quality_weight=0.0, frozen=False)
    assert len(gossip_of(one.feed(one.message(phase), after_s=1.0))) == 1


def test_new_estimates_are_a_change() -> None:
    one = busy(into=(1,), out=())
    one.feed(executed("first"), after_s=1.0)
    (told,) = gossip_of(one.feed(one.message(credit("first")), after_s=1.0))
    assert told.view.quality_T == (2 / 3, 0.5, 0.5)


# The mechanism's seam


class Scripted:
    """A mechanism that answers each event with the next entry of a list."""

    def __init__(self, *answers: list[MechanismCommand]) -> None:
        self._answers = list(answers)
        self.seen: list[MechanismEvent] = []
        self.views: list[LocalView] = []

    def on_event(
        self, event: MechanismEvent, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> list[MechanismCommand]:
        self.seen.append(event)
        self.views.append(view)
        return self._answers.pop(0)


def test_a_mechanism_talks_sets_timers_and_decides_later() -> None:
    body = MechanismBody()
    mechanism = Scripted(
        [Tell(to=agent(1), body=body), SetTimer(key="k", after_s=2.0)],
        [],
        [Keep(task_id=TaskId("t"), reason="nobody answered")],
    )
    one = OneAgent(mechanism=mechanism, into=())
    assert one.acts(one.message(submit("t"))) == [
        one.envelope(TO_1, 0, body),
        Wake(key="mechanism:k", after_s=2.0),
    ]
    assert one.acts(one.message(submit("u"))) == [], "t holds the only slot while it is routed"
    assert one.acts(one.says(1, body)) == []
    assert one.acts(Woken(key="mechanism:k"), after_s=2.0) == [Execute(task=make_task("t", age_s=2.0))]
    assert mechanism.seen == [
        Dispatched(task=make_task("t")),
        PeerSaid(sender=agent(1), body=body),
        TimerFired(key="k"),
    ]
    assert [view.in_service for view in mechanism.views] == [1, 1, 1]


def test_cancel_while_routing_reports_at_once_and_a_late_decision_is_counted() -> None:
    late = Keep(task_id=TaskId("t"), reason="late")
    one = OneAgent(mechanism=Scripted([], [late]), out=(), into=())
    one.feed(one.message(submit("t")))
    (command,) = one.acts(one.message(Cancel(task_id=TaskId("t"))))
    assert isinstance(command, Send)
    assert isinstance(command.envelope.body, Report)
    assert command.envelope.body.outcome.error == "cancelled"
    assert counts(one.feed(Woken(key="mechanism:k"))) == ["decision on a task that is not being routed"]


def test_a_message_that_agents_do_not_take_is_counted() -> None:
    one = OneAgent(out=(), into=())
    outcome = Outcome(task=make_task("t"), finisher=agent(1), answer="x")
    commands = one.feed(one.says(1, Report(outcome=outcome)))
    assert counts(commands) == ["unexpected message Report"]
    assert without_notes(commands) == []


def test_records_carry_the_phase() -> None:
    one = OneAgent(out=(), into=())
    one.feed(one.message(SetPhase(phase="warm-up", quality_weight=0.0, frozen=False)))
    commands = one.feed(one.message(submit("t")))
    records = [c.record for c in commands if isinstance(c, Note)]
    assert {record.phase for record in records} == {"warm-up"}
    assert len(records) == 2
