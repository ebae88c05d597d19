"""Carries one agent's commands out: sends, executes steps, remembers, keeps timers. All I/O of an agent is here.

Time is read in one place and the state is entered in one place (`_feed`), so that everything an agent does
follows from its log of (event, now, rng state).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from actors.agent.events import (
    Abort,
    Command,
    Delivered,
    Event,
    Execute,
    Executed,
    Note,
    Received,
    Remember,
    Restore,
    Send,
    Undelivered,
    Wake,
    Woken,
)
from actors.agent.identity import AgentIdentity
from actors.agent.learning import Learned
from actors.agent.state import AgentState
from actors.clock import Clock
from actors.config import AgentSettings
from actors.errors import Retryable
from actors.messages import Address, AgentView, Envelope, Forward, agent_of
from actors.metrics import CountRecord, Record, Stamped
from actors.peer import Peer
from actors.routing.quality import Counts
from actors.steps.machines import STEP_MACHINES, without_splits
from actors.steps.moves import Generate, Move, Recall, Recollection, Reply, StepResult
from actors.task import AgentId, StepRecord, Task, TaskId
from retrieval.api import Trajectory
from retrieval.memory import TrajectoryMemory
from serving.api import Completion, Request, Vectors
from serving.errors import RetryableServingError, ServingError

Result = TypeVar("Result")

RETRY_PAUSE_S = 0.01
"""Between two tries of a model call, at least: a replica that fails at once must not be asked without end."""


def unanswered(request: Request, timeout_s: float) -> RetryableServingError:
    """A model call that was given up."""
    return RetryableServingError(
        f"no answer to the {request.purpose} call within {timeout_s:g} s; raise executor.call_timeout_s "
        f"or lower executor.max_tokens"
    )


class Model(Protocol):
    """The agent's pinned replica, wherever it runs."""

    async def generate(self, request: Request) -> Completion: ...


class Embedder(Protocol):
    """The encoder that all agents share, wherever it runs."""

    async def encode(self, texts: Sequence[str]) -> Vectors: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A trajectory memory with the encoder that makes its vectors."""

    trajectories: TrajectoryMemory
    embedder: Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line of an agent's log; the log replays to the same commands."""

    event: Event
    now_s: float
    rng_state: Mapping[str, Any]
    """Before the event."""
    commands: tuple[Command, ...]
    """What the state answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """What an agent has learned and holds."""

    identity: AgentIdentity
    counts: Counts
    trajectories: tuple[Trajectory, ...]
    holding: tuple[TaskId, ...]
    log: tuple[LogEntry, ...]

    @property
    def agent(self) -> AgentId:
        return self.identity.agent


class AgentShell:
    """One agent at work."""

    def __init__(
        self,
        state: AgentState,
        settings: AgentSettings,
        *,
        model: Model,
        memory: Memory | None,
        connect: Callable[[Address], Peer],
        clock: Clock,
        rng: np.random.Generator,
        observe: Callable[[Record], None] | None = None,
        record_log: bool = False,
    ) -> None:
        self.state = state
        self._executor = settings.executor
        self._recall_patience_s = settings.memory.recall_patience_s
        self._machine = STEP_MACHINES[settings.executor.kind]
        self._model = model
        self._memory = memory
        self._connect = connect
        self._peers: dict[Address, Peer] = {}
        self._clock = clock
        self._rng = rng
        self._observe = observe
        self._log: list[LogEntry] | None = [] if record_log else None
        self._records: list[Stamped] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._executions: dict[TaskId, asyncio.Task[StepResult]] = {}
        self._closed = False

    async def restore(self, learned: Learned) -> None:
        """Takes up what an earlier run learned; before any task."""
        self._feed(Restore(counts=learned.counts, credited=learned.credited))
        for trajectory in learned.trajectories:
            await self._remember(trajectory)

    async def on(self, envelope: Envelope) -> AgentView | None:
        """Takes a message in; returning is the acknowledgement. A forward is answered with this agent's view."""
        self._feed(Received(envelope=envelope))
        return self.state.view() if isinstance(envelope.body, Forward) else None

    def drain(self) -> list[Stamped]:
        """Measurements since the last call."""
        records, self._records = self._records, []
        return records

    def snapshot(self) -> AgentSnapshot:
        return AgentSnapshot(
            identity=self.state.identity,
            counts=self.state.learning.estimates.counts(),
            trajectories=tuple(entry.trajectory for entry in self._memory.trajectories)
            if self._memory
            else (),
            holding=tuple(task.task_id for task in self.state.held()),
            log=tuple(self._log or ()),
        )

    async def close(self) -> None:
        """Stops everything this agent is doing; its model calls are cancelled."""
        self._closed = True
        for running in list(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    # Commands

    def _feed(self, event: Event) -> None:
        if self._closed:
            return
        now_s = self._clock.now_s()
        rng_state = self._rng.bit_generator.state if self._log is not None else {}
        commands = self.state.handle(event, now_s, self._rng)
        if self._log is not None:
            entry = LogEntry(event=event, now_s=now_s, rng_state=rng_state, commands=tuple(commands))
            self._log.append(entry)
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Note(record=record):
                self._note(record)
            case Send(to=to, envelope=envelope):
                self._start(self._send(to, envelope))
            case Execute():
                self._execute(command)
            case Abort(task_id=task_id):
                if (execution := self._executions.get(task_id)) is not None:
                    execution.cancel()
            case Remember(trajectory=trajectory):
                self._start(self._remember(trajectory))
            case Wake(key=key, after_s=after_s):
                asyncio.get_running_loop().call_later(after_s, self._wake, key)

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        running = asyncio.create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    def _wake(self, key: str) -> None:
        self._feed(Woken(key=key))

    def _note(self, record: Record) -> None:
        self._records.append(Stamped(wall_s=time.time(), record=record))
        if self._observe is not None:
            self._observe(record)

    def _count(self, what: str) -> None:
        self._note(CountRecord(agent=self.state.identity.agent, phase="", what=what))

    async def _send(self, to: Address, envelope: Envelope) -> None:
        """Hands a message over. A forward comes back as an event, whatever happens; a report is tried until it
        arrives; gossip may be lost, the next view repeats it."""
        if isinstance(envelope.body, Forward):
            await self._hand_over(to, envelope, envelope.body.task)
            return
        while True:
            try:
                await self._peer(to).send(envelope)
            except Retryable as error:
                self._count("message not delivered")
                if envelope.task_id is None:
                    return
                await asyncio.sleep(error.after_s)
            except Exception as error:
                self._count(f"message refused: {type(error).__name__}")
                return
            else:
                return

    async def _hand_over(self, to: Address, envelope: Envelope, task: Task) -> None:
        receiver = agent_of(to)
        try:
            view = await self._peer(to).send(envelope)
        except Exception as error:  # the task must come back, whatever its receiver suffers from
            self._count(
                "message not delivered"
                if isinstance(error, Retryable)
                else f"message refused: {type(error).__name__}"
            )
            self._feed(Undelivered(task_id=task.task_id, forwards=task.forwards, to=receiver))
        else:
            self._feed(Delivered(task_id=task.task_id, forwards=task.forwards, to=receiver, view=view))

    def _peer(self, to: Address) -> Peer:
        peer = self._peers.get(to)
        if peer is None:
            peer = self._peers[to] = self._connect(to)
        return peer

    # Execution

    def _execute(self, what: Execute) -> None:
        """Runs one step. Its end is fed back from outside of its coroutine: one that is cancelled before its
        first line has run can tell nothing."""
        started_s, task_id = self._clock.now_s(), what.task.task_id
        execution = self._executions[task_id] = self._start(self._interpret(what))
        execution.add_done_callback(lambda done: self._executed(task_id, started_s, done))

    def _executed(self, task_id: TaskId, started_s: float, done: asyncio.Task[StepResult]) -> None:
        """Whatever happened, the task comes back as an event."""
        del self._executions[task_id]
        if done.cancelled():
            result = self._failed("cancelled", started_s)
        elif (error := done.exception()) is None:
            result = done.result()
        elif isinstance(error, ServingError):
            result = self._failed(str(error), started_s)
        else:  # a defect in a step must not lose its task
            result = self._failed(f"{type(error).__name__} in the execution step: {error}", started_s)
        self._feed(Executed(task_id=task_id, result=result))

    def _failed(self, error: str, started_s: float) -> StepResult:
        duration_s = self._clock.now_s() - started_s
        agent = self.state.identity.agent
        return StepResult(record=StepRecord(agent=agent, kind="failed", result=error, duration_s=duration_s))

    async def _interpret(self, what: Execute) -> StepResult:
        """Drives a step machine: its moves out, the replies in, until it returns."""
        task, executor = what.task, self._executor if what.may_split else without_splits(self._executor)
        step = self._machine(task, self.state.identity.agent, executor, what.surroundings)
        calls = 0
        try:
            move = next(step)
            while True:
                calls += 1
                move = step.send(await self._reply(move, task, calls))
        except StopIteration as stop:
            result: StepResult = stop.value
            return result

    async def _reply(self, move: Move, task: Task, call: int) -> Reply:
        match move:
            case Recall(key_text=key_text):
                return await self._recall(key_text)
            case Generate(purpose=purpose, prompt=prompt, sampling=sampling):
                request = Request(
                    request_id=f"{task.task_id}/{task.attempt}/{len(task.steps)}/{call}",
                    prompt=prompt,
                    sampling=sampling,
                    task_id=task.task_id,
                    task_type=task.task_type,
                    purpose=purpose,
                )
                return await self._generate(request)

    async def _generate(self, request: Request) -> Completion:
        """One model call, tried again while its replica does not answer, within the executor's patience."""
        give_up_s = self._clock.now_s() + self._executor.call_patience_s
        while True:
            try:
                return await self._generate_once(request)
            except RetryableServingError as error:
                pause_s = max(error.after_s, RETRY_PAUSE_S)
                if self._clock.now_s() + pause_s > give_up_s:
                    raise
                self._count("model call retried")
                await asyncio.sleep(pause_s)

    async def _generate_once(self, request: Request) -> Completion:
        timeout_s = self._executor.call_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._model.generate(request)
        except TimeoutError:
            raise unanswered(request, timeout_s) from None

    async def _recall(self, key_text: str) -> Recollection:
        """Demonstrations for a prompt; without an answer from the encoder the step goes on without them."""
        if self._memory is None or not len(self._memory.trajectories):
            return Recollection()
        try:
            async with asyncio.timeout(self._recall_patience_s):
                vectors = await self._memory.embedder.encode([key_text])
        except (ServingError, TimeoutError):
            return Recollection(skipped=True)
        return Recollection(found=tuple(self._memory.trajectories.recall(vectors[0])))

    async def _remember(self, trajectory: Trajectory) -> None:
        if self._memory is None:
            return
        give_up_s = self._clock.now_s() + self._executor.call_patience_s
        while True:
            try:
                vectors = await self._memory.embedder.encode([trajectory.key_text])
            except RetryableServingError as error:
                if self._clock.now_s() + error.after_s > give_up_s:
                    self._count("trajectory not remembered: encoder down")
                    return
                await asyncio.sleep(error.after_s)
            except ServingError:
                self._count("trajectory not remembered: encoder refused")
                return
            else:
                self._memory.trajectories.remember(trajectory, vectors[0])
                return
