"""One agent's state: what it learns, what it tells its neighbours, and how it uses its mechanism."""

from dataclasses import replace

import numpy as np
import pytest

from actors.agent.events import (
    Command,
    Execute,
    Executed,
    Note,
    Remember,
    Restore,
    Send,
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
    Gossip,
    MechanismBody,
    Report,
    SetPhase,
    agent_address,
)
from actors.routing.quality import Counts
from actors.task import Outcome, TaskId
from retrieval.api import Trajectory
from tests.actors.samples import (
    OneAgent,
    agent,
    answered,
    busy,
    counts,
    executed,
    make_task,
    make_view,
    sent,
    split_off,
    submit,
    without_notes,
)

TO_1 = agent_address(agent(1))


def executions(commands: list[Command]) -> list[Execute]:
    return [command for command in commands if isinstance(command, Execute)]


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


def after_splits(*, whole: bool, divided: bool, weight: float = 20.0, must_pay: bool = True) -> bool:
    """Whether an agent may split, after ten verdicts each on tasks it answered whole and on tasks it split."""
    settings = AgentSettings()
    executor = settings.executor.model_copy(update={"splits_must_pay": must_pay})
    one = OneAgent(out=(), into=(), settings=settings.model_copy(update={"executor": executor}))
    one.feed(one.message(SetPhase(phase="warmup", quality_weight=0.0, frozen=False, warmup=True)))
    for n in range(10):
        for name, result, success in (
            (f"whole {n}", answered(0), whole),
            (f"divided {n}", split_off(0), divided),
        ):
            (execute,) = executions(one.feed(one.message(submit(name))))
            assert execute.may_split, "the warm-up samples both"
            one.feed(Executed(task_id=TaskId(name), result=result))
            if name.startswith("divided"):
                one.feed(Executed(task_id=TaskId(name), result=answered(0)))
            one.feed(one.message(credit(name, success=success)))
    one.feed(one.message(SetPhase(phase="test", quality_weight=weight, frozen=True)))
    (execute,) = executions(one.feed(one.message(submit("next"))))
    return execute.may_split


def test_a_split_is_offered_where_it_has_paid() -> None:
    """Eleven twelfths against one: worth a step at V=20, not at V=1."""
    assert after_splits(whole=False, divided=True)
    assert not after_splits(whole=False, divided=True, weight=1.0)
    assert not after_splits(whole=True, divided=True)
    assert not after_splits(whole=True, divided=False)
    assert after_splits(whole=True, divided=False, must_pay=False), "the paper always offers it"


def test_what_splits_gave_is_restored() -> None:
    estimates = busy(out=(), into=()).state.learning.estimates
    estimates.credit(0, success=True, divided=True)
    estimates.credit(0, success=False)
    gain = estimates.split_gain(0)
    assert gain == pytest.approx(2 / 3 - 1 / 3)
    other = busy(out=(), into=()).state.learning.estimates
    other.restore(estimates.counts())
    assert (other.split_gain(0), other.counts()) == (gain, estimates.counts())


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
    commands = one.acts(one.message(submit("t")))
    assert commands == [
        one.envelope(TO_1, 0, body, view=replace(one.state.view(), version=1)),
        Wake(key="mechanism:k", after_s=2.0),
    ], "what a mechanism says carries its agent's view"
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
