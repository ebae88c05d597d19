"""Many `AgentState`s joined by a network that a seed controls: no asyncio, no wall clock.

In disorder, whatever is under way may happen next: messages overtake each other, are duplicated or lost, and a
receiver's answer to a hand-over may be lost although it has the task. In order, everything happens when its time
has come, which makes a small simulation.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
    Send,
    Undelivered,
    Wake,
    Woken,
)
from actors.agent.identity import AgentIdentity
from actors.agent.state import AgentState
from actors.backpressure.mechanism import Backpressure
from actors.config import AgentSettings
from actors.mechanism import (
    Dispatched,
    ForwardTo,
    Keep,
    LocalView,
    Mechanism,
    MechanismCommand,
    MechanismEvent,
)
from actors.messages import (
    Address,
    AgentView,
    Body,
    Envelope,
    Forward,
    Gossip,
    Report,
    Submit,
    about,
    agent_of,
)
from actors.metrics import Record
from actors.steps.moves import StepResult
from actors.task import AgentId, Outcome, Task, TaskId, TaskType
from tests.actors.samples import INTAKE, answered, failed, split_off

STEP_LIMIT = 100_000


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Shares of messages and steps that something happens to."""

    lost: float = 0.0
    unanswered: float = 0.0
    """Hand-overs that arrive without the sender learning of it."""
    duplicated: float = 0.0
    slow_answers: float = 0.0
    """How often the answer to a hand-over is put off once more, in disorder."""
    split: float = 0.0
    failed: float = 0.0

    @property
    def copies(self) -> bool:
        """Whether two agents may come to hold one task."""
        return self.unanswered > 0 or (self.lost > 0 and self.duplicated > 0)


class Wanderer:
    """A mechanism that sends tasks about at random, as far as the rules allow."""

    def on_event(
        self, event: MechanismEvent, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> list[MechanismCommand]:
        assert isinstance(event, Dispatched)
        task = event.task
        free = [j for j in view.neighbours.ids_J if j != task.previous and j not in view.unreachable]
        if task.hops >= 3 or not free or rng.random() < 0.1:
            return [Keep(task_id=task.task_id, reason="stays")]
        return [ForwardTo(task_id=task.task_id, to=free[int(rng.integers(len(free)))], reason="wanders")]


@dataclass(frozen=True, kw_only=True)
class Happening:
    """An event that is due at an agent, or a message on its way to one."""

    to: AgentId
    event: Event | None = None
    envelope: Envelope | None = None


@dataclass(kw_only=True)
class Network:
    """Axis N: agents."""

    out_N: Sequence[Sequence[int]]
    types: tuple[TaskType, ...]
    settings: AgentSettings
    slots: int = 2
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    disorder: bool = True
    service_s: Callable[[AgentId, Task], float] = lambda agent, task: 1.0
    mechanism: Callable[[AgentId], Mechanism] | None = None

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._rng = np.random.default_rng(self.seed)
        self.now_s = 0.0
        self._order = 0
        self._under_way: list[tuple[float, int, Happening]] = []
        self._sequences: Counter[AgentId] = Counter()
        self._came_from: dict[TaskId, AgentId] = {}
        self._answered: set[tuple[Address, int, AgentId]] = set()
        self._views: dict[tuple[AgentId, int], AgentView] = {}
        self.outcomes: list[Outcome] = []
        self.records: list[Record] = []
        self.running: dict[tuple[AgentId, TaskId], bool] = {}
        """Steps under way; True where aborted."""
        self.states = [self._state(AgentId(i)) for i in range(len(self.out_N))]

    def _state(self, agent: AgentId) -> AgentState:
        identity = AgentIdentity(
            agent=agent,
            epoch=1,
            types=self.types,
            out_neighbours=tuple(AgentId(j) for j in self.out_N[agent]),
            in_neighbours=tuple(AgentId(i) for i, out in enumerate(self.out_N) if agent in out),
            slots=self.slots,
            intake=INTAKE,
        )
        if self.mechanism is not None:
            return AgentState(identity, self.settings, self.mechanism(agent))
        mechanism = Backpressure(self.settings.mechanism, self.settings.recorded_candidates)
        return AgentState(identity, self.settings, mechanism)

    # What a test does

    def submit(self, agent: int, task: Task, after_s: float = 0.0) -> None:
        self.tell(AgentId(agent), Submit(task=task), after_s=after_s, task=task)

    def tell(self, agent: AgentId, body: Body, *, after_s: float = 0.0, task: Task | None = None) -> None:
        """A message from the intake."""
        sequence = self._sequences[agent]
        self._sequences[agent] += 1
        envelope = about(task, sender=INTAKE, epoch=1, sequence=sequence, body=body)
        self._later(after_s, Happening(to=agent, envelope=envelope))

    def broadcast(self, body: Body) -> None:
        for agent in range(len(self.states)):
            self.tell(AgentId(agent), body)

    def run(self, steps: int = STEP_LIMIT) -> bool:
        """Lets things happen; says whether everything has come to rest."""
        for _ in range(steps):
            if not self._under_way:
                return True
            self._happen()
        return not self._under_way

    def holding(self) -> list[TaskId]:
        """Every task in any queue or slot."""
        return [task.task_id for state in self.states for task in state.held()]

    # What happens

    def _later(self, after_s: float, happening: Happening) -> None:
        self._order += 1
        heapq.heappush(self._under_way, (self.now_s + after_s, self._order, happening))

    def _happen(self) -> None:
        if self.disorder:
            position = self._chance.randrange(len(self._under_way))
            self._under_way[position], self._under_way[-1] = self._under_way[-1], self._under_way[position]
            due_s, order, happening = self._under_way.pop()
            if isinstance(happening.event, Delivered) and self._chance.random() < self.faults.slow_answers:
                self._under_way.append((due_s, order, happening))
                return
            self.now_s += self._chance.choice((0.0, 0.001, 0.1))
        else:
            due_s, _, happening = heapq.heappop(self._under_way)
            self.now_s = max(self.now_s, due_s)
        if happening.envelope is not None:
            self._arrive(happening, happening.envelope)
        elif happening.event is not None:
            if isinstance(happening.event, Executed):
                self._end_step(happening.to, happening.event)
            else:
                self._handle(happening.to, happening.event)

    def _end_step(self, agent: AgentId, event: Executed) -> None:
        aborted = self.running.pop((agent, event.task_id))
        self._handle(
            agent, Executed(task_id=event.task_id, result=failed(agent, "cancelled")) if aborted else event
        )

    def _arrive(self, happening: Happening, envelope: Envelope) -> None:
        fate = self._chance.random()
        forwarded = envelope.body.task if isinstance(envelope.body, Forward) else None
        if self._chance.random() < self.faults.duplicated:
            self._later(0.0, happening)
        if fate < self.faults.lost:
            if forwarded is not None:
                self._answer(envelope, forwarded, happening.to, heard=False)
            elif envelope.sender == INTAKE:  # it tries until it gets through
                self._later(0.1, happening)
            return
        if forwarded is not None and (envelope.sender, envelope.sequence, happening.to) not in self._answered:
            self._came_from[forwarded.task_id] = agent_of(envelope.sender)
        self._handle(happening.to, Received(envelope=envelope))
        if forwarded is not None:
            self._answer(
                envelope, forwarded, happening.to, heard=fate >= self.faults.lost + self.faults.unanswered
            )

    def _answer(self, envelope: Envelope, task: Task, receiver: AgentId, *, heard: bool) -> None:
        """The end of a hand-over as its sender sees it; a duplicated message has but one."""
        key = (envelope.sender, envelope.sequence, receiver)
        if key in self._answered:
            return
        self._answered.add(key)
        event: Event = Undelivered(task_id=task.task_id, forwards=task.forwards, to=receiver)
        if heard:
            view = self.states[receiver].view()
            event = Delivered(task_id=task.task_id, forwards=task.forwards, to=receiver, view=view)
        self._later(0.0, Happening(to=agent_of(envelope.sender), event=event))

    def _handle(self, agent: AgentId, event: Event) -> None:
        state = self.states[agent]
        for command in state.handle(event, self.now_s, self._rng):
            self._carry_out(agent, command)
        view = state.view()
        self._check(view)
        assert 0 <= view.in_service <= view.slots, "more tasks in service than slots"
        assert len(state.held()) >= sum(view.waiting_T) + view.in_service, "some leave without a slot"
        assert view.in_service == view.slots or not sum(view.waiting_T), "a slot is free while a task waits"

    def _check(self, view: AgentView) -> None:
        assert self._views.setdefault((view.agent, view.version), view) == view, "two views of one version"

    def _carry_out(self, agent: AgentId, command: Command) -> None:
        match command:
            case Note(record=record):
                self.records.append(record)
            case Send(to=to, envelope=envelope):
                self._send(agent, to, envelope)
            case Execute(task=task):
                assert (agent, task.task_id) not in self.running, "one task executed twice at once"
                self.running[agent, task.task_id] = False
                executed = Executed(task_id=task.task_id, result=self._result(agent, task))
                self._later(self.service_s(agent, task), Happening(to=agent, event=executed))
            case Abort(task_id=task_id):
                if (agent, task_id) in self.running:
                    self.running[agent, task_id] = True
            case Wake(key=key, after_s=after_s):
                self._later(after_s, Happening(to=agent, event=Woken(key=key)))
            case _:
                raise AssertionError(f"nothing was credited, but {command} came")

    def _send(self, agent: AgentId, to: Address, envelope: Envelope) -> None:
        if isinstance(envelope.body, Report):
            assert to == INTAKE
            self.outcomes.append(envelope.body.outcome)
            return
        receiver = agent_of(to)
        if isinstance(envelope.body, Forward | Gossip):
            self._check(envelope.body.view)
        if isinstance(envelope.body, Forward):
            task = envelope.body.task
            assert receiver in self.out_N[agent], "forwarded along no edge"
            assert task.hops <= self.settings.mechanism.max_hops, "too many hops"
            assert task.previous == agent
            if not self.faults.copies:  # each copy of a task has a way of its own
                assert self._came_from.get(task.task_id) != receiver, "sent straight back"
        self._later(0.0, Happening(to=receiver, envelope=envelope))

    def _result(self, agent: AgentId, task: Task) -> StepResult:
        fate = self._chance.random()
        if fate < self.faults.failed:
            return failed(agent)
        if fate < self.faults.failed + self.faults.split and task.splits < self.settings.executor.max_splits:
            self._came_from.pop(task.task_id, None)
            return split_off(agent)
        return answered(agent)
