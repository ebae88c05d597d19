"""The shell: every command comes back as its event, whatever peers and models do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest

from actors.agent.identity import AgentIdentity
from actors.agent.shell import AgentShell, Memory
from actors.agent.state import AgentState
from actors.backpressure.mechanism import Backpressure
from actors.clock import MonotonicClock
from actors.config import AgentSettings, ExecutorSettings, MemorySettings
from actors.errors import Final, Retryable
from actors.messages import (
    Address,
    AgentView,
    Body,
    Cancel,
    Credit,
    Envelope,
    Forward,
    Gossip,
    Report,
    SetPhase,
    Submit,
    about,
)
from actors.metrics import ArrivalRecord, CountRecord, ExecutionRecord
from actors.peer import Peer
from actors.task import Outcome, TaskId
from retrieval.build import build_memory
from retrieval.ranking import RankingSettings
from serving.api import Completion, Request, Usage, Vectors
from serving.errors import FinalServingError, RetryableServingError
from tests.actors.samples import INTAKE, TYPES, A, agent, agents, make_task, make_view


class Model:
    """Answers at once, unless told what to do with a call: raise this, or wait."""

    def __init__(self, *faults: Exception | asyncio.Event) -> None:
        self.faults = list(faults)
        self.requests: list[Request] = []
        self.cancelled = 0

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            try:
                await fault.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return Completion(text="42", usage=Usage(prompt_tokens=1, completion_tokens=1), duration_s=0.5)


class Encoder:
    """All texts are alike."""

    def __init__(self, *faults: Exception | asyncio.Event) -> None:
        self.faults = list(faults)

    async def encode(self, texts: Sequence[str]) -> Vectors:
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            await fault.wait()
        return np.eye(1, 4, dtype=np.float32).repeat(len(texts), axis=0)


class Others:
    """Every peer of the agent: keeps what it is sent, and raises what it is told to."""

    def __init__(self) -> None:
        self.faults: dict[Address, list[Exception]] = {}
        self.sent: list[tuple[Address, Envelope]] = []
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue()

    def connect(self, to: Address) -> Peer:
        others = self

        class Other:
            async def send(self, envelope: Envelope) -> AgentView | None:
                faults = others.faults.get(to)
                if faults and not isinstance(envelope.body, Gossip):
                    raise faults.pop(0)
                others.sent.append((to, envelope))
                if isinstance(envelope.body, Report):
                    others.outcomes.put_nowait(envelope.body.outcome)
                return make_view(1, version=10) if isinstance(envelope.body, Forward) else None

        return Other()


class Bench:
    """One shell with one slot and what surrounds it."""

    def __init__(self, model: Model, *, encoder: Encoder | None = None, executor: ExecutorSettings) -> None:
        settings = AgentSettings(
            executor=executor, memory=MemorySettings(kind="exact", recall_patience_s=0.05)
        )
        identity = AgentIdentity(
            agent=agent(0), epoch=1, types=TYPES, out_neighbours=agents(1), in_neighbours=agents(1), slots=1,
            intake=INTAKE,
        )  # fmt: skip
        self.others = Others()
        self.model = model
        self.memory = None
        if encoder is not None:
            trajectories = build_memory(kind="exact", dimensions=4, capacity=40, ranking=RankingSettings())
            self.memory = Memory(trajectories=trajectories, embedder=encoder)
        self.shell = AgentShell(
            AgentState(identity, settings, Backpressure(settings.mechanism, settings.recorded_candidates)),
            settings,
            model=model,
            memory=self.memory,
            connect=self.others.connect,
            clock=MonotonicClock(),
            rng=np.random.default_rng(1),
        )
        self._sequence = 0

    async def tell(self, body: Body, sender: str = INTAKE) -> AgentView | None:
        self._sequence += 1
        envelope = about(None, sender=Address(sender), epoch=1, sequence=self._sequence, body=body)
        return await self.shell.on(envelope)

    async def submit(self, name: str) -> None:
        await self.tell(Submit(task=make_task(name)))

    async def outcome(self) -> Outcome:
        return await asyncio.wait_for(self.others.outcomes.get(), 5.0)

    async def prefer_neighbour(self) -> None:
        """From now on every task is better off at agent 1."""
        await self.tell(SetPhase(phase="test", quality_weight=80.0, frozen=False))
        await self.tell(Gossip(view=make_view(1, quality=(0.9, 0.9, 0.9))), sender="agent:1")

    def counts(self) -> list[str]:
        return [s.record.what for s in self.shell.drain() if isinstance(s.record, CountRecord)]


def at_work(
    use: Callable[[Bench], Awaitable[None]],
    model: Model | None = None,
    *,
    encoder: Encoder | None = None,
    executor: ExecutorSettings | None = None,
) -> None:
    async def body() -> None:
        given = executor if executor is not None else ExecutorSettings(kind="direct")
        bench = Bench(model if model is not None else Model(), encoder=encoder, executor=given)
        await use(bench)
        await bench.shell.close()
        assert len(asyncio.all_tasks()) == 1, "something runs on after close"

    asyncio.run(body())


def test_a_task_is_executed_and_reported() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        outcome = await bench.outcome()
        assert outcome.answer == "42"
        (record,) = (s.record for s in bench.shell.drain() if isinstance(s.record, ExecutionRecord))
        assert (record.calls, record.execution_s) == (1, 0.5)

    at_work(use)


@pytest.mark.parametrize("kind", ["direct", "deliberate"])
def test_request_ids_are_unique(kind: str) -> None:
    async def use(bench: Bench) -> None:
        for name in ("t", "u"):
            await bench.submit(name)
            await bench.outcome()
        ids = [request.request_id for request in bench.model.requests]
        assert len(ids) == len(set(ids)) == (2 if kind == "direct" else 8)

    at_work(use, executor=ExecutorSettings(kind=kind))  # type: ignore[arg-type]


def test_a_step_that_is_cancelled_before_its_first_line_ran_still_comes_back() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await bench.tell(Cancel(task_id=TaskId("t")))
        assert bench.model.requests == [], "the step has not begun"
        assert (await bench.outcome()).error == "cancelled"
        await bench.submit("u")
        assert (await bench.outcome()).answer == "42", "its slot is free again"

    at_work(use)


def test_cancelling_a_hanging_model_call_reaches_the_model() -> None:
    model = Model(asyncio.Event())

    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await asyncio.sleep(0)
        await bench.tell(Cancel(task_id=TaskId("t")))
        assert (await bench.outcome()).error == "cancelled"
        assert model.cancelled == 1

    at_work(use, model)


def test_closing_cancels_the_model_calls() -> None:
    model = Model(asyncio.Event())

    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await asyncio.sleep(0)

    at_work(use, model)
    assert model.cancelled == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (FinalServingError("no such model"), "no such model"),
        (ZeroDivisionError("oops"), "ZeroDivisionError in the execution step: oops"),
    ],
)
def test_a_model_error_ends_the_task_with_it(fault: Exception, error: str) -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        assert (await bench.outcome()).error == error
        await bench.submit("u")
        assert (await bench.outcome()).answer == "42"

    at_work(use, Model(fault))


def test_a_call_is_tried_again_within_the_patience() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        assert (await bench.outcome()).answer == "42"
        assert bench.counts() == ["model call retried"] * 2
        assert len({request.request_id for request in bench.model.requests}) == 1

    at_work(use, Model(RetryableServingError("busy", 0.0), RetryableServingError("busy", 0.0)))


def test_a_replica_that_fails_at_once_is_not_asked_without_end() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        assert (await bench.outcome()).error == "busy"
        assert 2 <= len(bench.model.requests) <= 11

    faults = [RetryableServingError("busy", 0.0) for _ in range(1000)]
    at_work(use, Model(*faults), executor=ExecutorSettings(kind="direct", call_patience_s=0.1))


def test_beyond_the_patience_the_task_ends_with_an_error() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        assert (await bench.outcome()).error == "replica down"
        assert len(bench.model.requests) == 2

    faults = [RetryableServingError("replica down", 0.01), RetryableServingError("replica down", 9.0)]
    at_work(use, Model(*faults), executor=ExecutorSettings(kind="direct", call_patience_s=0.5))


def test_a_call_that_never_ends_is_cancelled_and_ends_the_task() -> None:
    model = Model(asyncio.Event())

    async def use(bench: Bench) -> None:
        await bench.submit("t")
        error = (await bench.outcome()).error
        assert error is not None
        assert "call_timeout_s" in error
        assert model.cancelled == 1

    at_work(use, model, executor=ExecutorSettings(kind="direct", call_timeout_s=0.05, call_patience_s=0.01))


@pytest.mark.parametrize("fault", [Retryable("busy"), Final("no such agent"), KeyError("defect there")])
def test_a_hand_over_that_fails_in_any_way_brings_the_task_back(fault: Exception) -> None:
    async def use(bench: Bench) -> None:
        await bench.prefer_neighbour()
        bench.others.faults[Address("agent:1")] = [fault]
        await bench.submit("t")
        assert (await bench.outcome()).answer == "42"
        arrivals = [s.record.how for s in bench.shell.drain() if isinstance(s.record, ArrivalRecord)]
        assert arrivals == ["submitted", "returned"]

    at_work(use)


def test_a_hand_over_frees_the_slot() -> None:
    async def use(bench: Bench) -> None:
        await bench.prefer_neighbour()
        await bench.submit("t")
        await asyncio.sleep(0.01)
        assert bench.shell.snapshot().holding == ()
        assert [type(e.body) for to, e in bench.others.sent if to == "agent:1" and e.task_id == "t"] == [
            Forward
        ]
        assert bench.model.requests == []

    at_work(use)


def test_a_forward_is_answered_with_the_receivers_view() -> None:
    async def use(bench: Bench) -> None:
        view = await bench.tell(
            Forward(task=make_task("t", hops=1, forwards=1), view=make_view(1)), "agent:1"
        )
        assert view is not None
        assert (view.agent, view.in_service) == (0, 1)

    at_work(use)


def test_a_report_is_tried_until_it_arrives() -> None:
    async def use(bench: Bench) -> None:
        bench.others.faults[INTAKE] = [Retryable("busy", 0.0), Retryable("busy", 0.0)]
        await bench.submit("t")
        assert (await bench.outcome()).answer == "42"
        assert bench.counts() == ["message not delivered"] * 2

    at_work(use)


def test_a_refused_report_is_counted_and_holds_nothing_up() -> None:
    async def use(bench: Bench) -> None:
        bench.others.faults[INTAKE] = [Final("no reports here")]
        await bench.submit("t")
        await bench.submit("u")
        assert (await bench.outcome()).task.task_id == "u"
        assert bench.counts() == ["message refused: Final"]

    at_work(use)


# Memory


def test_what_succeeded_is_remembered_and_shown_later() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await bench.outcome()
        await bench.tell(Credit(task_id=TaskId("t"), task_type=A, success=True))
        await asyncio.sleep(0.01)
        assert [t.trajectory_id for t in bench.shell.snapshot().trajectories] == ["t:0"]
        await bench.submit("u")
        outcome = await bench.outcome()
        assert [name for name, _ in outcome.task.steps[0].recalled] == ["t:0"]
        assert len(bench.model.requests[1].prompt.demonstrations) == 1

    at_work(use, encoder=Encoder())


def test_a_trajectory_is_remembered_once_its_encoder_answers_again() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await bench.outcome()
        await bench.tell(Credit(task_id=TaskId("t"), task_type=A, success=True))
        await asyncio.sleep(0.01)
        assert len(bench.shell.snapshot().trajectories) == 1

    at_work(use, encoder=Encoder(RetryableServingError("busy", 0.0)))


def test_a_refused_trajectory_is_counted() -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await bench.outcome()
        await bench.tell(Credit(task_id=TaskId("t"), task_type=A, success=True))
        await asyncio.sleep(0.01)
        assert bench.shell.snapshot().trajectories == ()
        assert bench.counts() == ["trajectory not remembered: encoder refused"]

    at_work(use, encoder=Encoder(FinalServingError("too long")))


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_a_retrieval_without_an_answer_is_skipped_and_counted(how: str) -> None:
    async def use(bench: Bench) -> None:
        await bench.submit("t")
        await bench.outcome()
        await bench.tell(Credit(task_id=TaskId("t"), task_type=A, success=True))
        await asyncio.sleep(0.01)
        assert bench.memory is not None
        assert isinstance(bench.memory.embedder, Encoder)
        fault = RetryableServingError("down") if how == "raises" else asyncio.Event()
        bench.memory.embedder.faults.append(fault)
        await bench.submit("u")
        outcome = await bench.outcome()
        assert outcome.answer == "42"
        assert outcome.task.steps[0].recall_skipped == 1

    at_work(use, encoder=Encoder())
