"""The intake: accepts, keeps, hands out each result once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from actors.clock import ManualClock
from actors.cluster.api import Verdict
from actors.cluster.intake import Intake
from actors.errors import ClusterError, Final, Retryable
from actors.messages import Address, Credit, Envelope, Gossip, Report, SetPhase, Submit, about
from actors.peer import Peer
from actors.task import Outcome, Task, TaskId
from tests.actors.samples import A, agent, agents, make_task, make_view

AGENT = Address("agent:0")


class Recorder:
    """A peer that keeps what it is sent; raises what it is told to, first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.received: list[Envelope] = []

    async def send(self, envelope: Envelope) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.received.append(envelope)


def with_intake(use: Callable[[Intake, Recorder, ManualClock], Awaitable[None]], *errors: Exception) -> None:
    async def body() -> None:
        recorder, clock = Recorder(*errors), ManualClock(100.0)

        def connect(to: Address) -> Peer:
            return recorder

        await use(Intake(connect, clock, epoch=7), recorder, clock)

    asyncio.run(body())


def report(task: Task, answer: str = "42") -> Envelope:
    body = Report(outcome=Outcome(task=task, finisher=agent(0), answer=answer))
    return about(task, sender=AGENT, epoch=1, sequence=0, body=body)


def test_a_task_is_sent_to_its_agent_and_its_result_collected_with_its_latency() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        task = make_task("t")
        await intake.submit([(agent(0), task)])
        (envelope,) = recorder.received
        assert (envelope.body, envelope.task_id, envelope.sequence, envelope.epoch) == (
            Submit(task=task),
            "t",
            0,
            7,
        )
        clock.advance(2.5)
        await intake.on(report(task))
        (finished,) = await intake.collect(0.0)
        assert finished.latency_s == 2.5
        assert finished.outcome.answer == "42"
        assert await intake.collect(0.0) == []

    with_intake(use)


def test_a_second_report_is_ignored() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        task = make_task("t")
        await intake.submit([(agent(0), task)])
        await intake.on(report(task, "first"))
        await intake.on(report(task, "second"))
        assert [f.outcome.answer for f in await intake.collect(0.0)] == ["first"]
        await intake.on(report(make_task("never submitted")))
        assert await intake.collect(0.0) == []

    with_intake(use)


def test_a_task_id_that_is_under_way_is_refused_before_anything_is_sent() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        with pytest.raises(Final, match="'t' is already under way"):
            await intake.submit([(agent(0), make_task("t")), (agent(1), make_task("t"))])
        await intake.submit([(agent(0), make_task("t"))])
        with pytest.raises(Final, match="'t' is already under way"):
            await intake.submit([(agent(0), make_task("new")), (agent(0), make_task("t"))])
        assert len(recorder.received) == 1
        await intake.on(report(make_task("t")))
        await intake.submit([(agent(0), make_task("t"))])
        assert len(recorder.received) == 2

    with_intake(use)


def test_an_agent_that_does_not_answer_is_asked_again_with_the_same_message() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        await intake.submit([(agent(0), make_task("t"))])
        assert [envelope.sequence for envelope in recorder.received] == [0]

    with_intake(use, Retryable("busy", 0.0), Retryable("busy", 0.0))


def test_a_task_for_an_agent_that_is_gone_is_an_error_and_may_be_given_to_another() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        with pytest.raises(ClusterError, match="agent 0 is gone"):
            await intake.submit([(agent(0), make_task("t"))])
        await intake.submit([(agent(1), make_task("t"))])
        assert len(recorder.received) == 1

    with_intake(use, ClusterError("agent 0 is gone"))


def test_collect_wakes_up_for_the_first_result() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        await intake.submit([(agent(0), make_task("t"))])
        collecting = asyncio.create_task(intake.collect(60.0))
        await asyncio.sleep(0)
        await intake.on(report(make_task("t")))
        assert len(await asyncio.wait_for(collecting, 5.0)) == 1

    with_intake(use)


def test_every_agent_of_a_trail_is_credited() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        await intake.credit([Verdict(task_id=TaskId("t"), task_type=A, agents=agents(0, 2), success=True)])
        credit = Credit(task_id=TaskId("t"), task_type=A, success=True)
        assert [envelope.body for envelope in recorder.received] == [credit, credit]

    with_intake(use)


def test_control_messages_are_numbered_by_receiver() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        for _ in range(2):
            await intake.broadcast(agents(0, 1), SetPhase(phase="p", quality_weight=0.0, frozen=False))
        assert [envelope.sequence for envelope in recorder.received] == [0, 0, 1, 1]

    with_intake(use)


def test_an_intake_takes_reports_only() -> None:
    async def use(intake: Intake, recorder: Recorder, clock: ManualClock) -> None:
        with pytest.raises(Final, match="takes reports, not Gossip"):
            await intake.on(Envelope(sender=AGENT, epoch=1, sequence=0, body=Gossip(view=make_view(0))))

    with_intake(use)
