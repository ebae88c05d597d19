"""A plan under virtual time: the same agents, their commands carried out by a heap of events. Neither waits nor
measures; a run of an hour takes seconds, and the same plan and stream always give the same result.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from actors.agent.actor import build_state
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
    Wake,
    Woken,
)
from actors.agent.shell import AgentSnapshot, LogEntry
from actors.agent.state import AgentState
from actors.cluster.api import Finished, Verdict
from actors.cluster.plan import INTAKE, Plan
from actors.cluster.simulation_settings import SimulationSettings
from actors.cluster.virtual_memory import VirtualMemory, memories_of
from actors.cluster.virtual_steps import StepRunner
from actors.errors import ClusterError, Final
from actors.messages import Body, Credit, Envelope, Forward, Report, Submit, about, agent_of
from actors.metrics import CountRecord, Record, Stamped
from actors.steps.moves import StepResult
from actors.task import AgentId, StepRecord, Task, TaskId
from serving.build import build_virtual_model
from serving.errors import ServingError

START_WALL_S = 946_684_800.0
"""Virtual time 0 on the calendar (1 January 2000, UTC): recognisable, and the same in every run."""


@dataclass(slots=True)
class _Call:
    """A model call that ends."""

    task_id: TaskId
    token: int
    """Which execution it belongs to: one that was aborted has no more use for it."""


_Happening = Event | Envelope | _Call
_Due = tuple[float, int, int, _Happening]
"""(virtual time, order, agent, what): `order` keeps what is due at once in the order it was asked for; agent -1 is
the intake. A plain tuple: there are millions, and a heap compares them."""
INTAKE_INDEX = -1


class Simulation:
    """A running plan under virtual time. Not thread-safe; nothing happens outside of `run`."""

    def __init__(self, plan: Plan, settings: SimulationSettings | None = None) -> None:
        """Raises ClusterError naming a model that cannot run under virtual time."""
        self._plan = plan
        self._settings = settings or SimulationSettings()
        self.now_s = 0.0
        self.events = 0
        """Events that agents have handled."""
        self._order = 0
        self._heap: list[_Due] = []
        self._records: list[Stamped] = []
        self._under_way: dict[TaskId, float] = {}
        self._sequences: dict[AgentId, int] = {}
        agents = [agent.agent for agent in plan.agents]
        agent_settings = plan.settings
        self._records_all = self._settings.record or plan.record_logs
        self._memories = memories_of(plan) if self._records_all else [VirtualMemory() for _ in agents]
        self._logs: list[list[LogEntry]] = [[] for _ in agents]
        if not self._records_all:
            agent_settings = agent_settings.model_copy(update={"notes": False, "recorded_candidates": 0})
        self._states: list[AgentState] = [
            build_state(plan.identity(agent, epoch=1), agent_settings) for agent in agents
        ]
        self._rngs = [np.random.Generator(np.random.PCG64([plan.seed, agent])) for agent in agents]
        try:
            models = [build_virtual_model(agent.backend) for agent in plan.agents]
        except ServingError as error:
            raise ClusterError(f"plan {plan.name!r} could not start: {error}") from error
        self._steps = [
            StepRunner(agent, model, plan.settings.executor, memory, self._count)
            for agent, model, memory in zip(agents, models, self._memories, strict=True)
        ]
        for agent, learned in plan.learned.items():
            self._handle(agent, Restore(counts=learned.counts, credited=learned.credited))
            for trajectory in learned.trajectories:
                self._memories[agent].remember(trajectory)

    # What a caller does

    def submit(self, tasks: Sequence[tuple[float, AgentId, Task]]) -> None:
        """Tasks, each with the seconds from now after which it arrives and its arrival agent. Raises Final for a
        task id that is under way."""
        for after_s, agent, task in tasks:
            if task.task_id in self._under_way:
                raise Final(f"task {task.task_id!r} is already under way; give each task an id of its own")
            self._under_way[task.task_id] = self.now_s + after_s
            self._tell(agent, Submit(task=task), after_s, task)

    def credit(self, verdicts: Sequence[Verdict]) -> None:
        """Sends verdicts to the agents in each trail."""
        for verdict in verdicts:
            body = Credit(task_id=verdict.task_id, task_type=verdict.task_type, success=verdict.success)
            for agent in verdict.agents:
                self._tell(agent, body, 0.0)

    def broadcast(self, body: Body) -> None:
        """A control message to every agent."""
        for agent in self._plan.agents:
            self._tell(agent.agent, body, 0.0)

    def run(self, until_s: float = np.inf) -> Iterator[Finished]:
        """Lets things happen; yields each result at its virtual time. Ends when nothing is left to happen, or
        before the first thing after `until_s`. The caller may submit and credit in between."""
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            self.now_s, _, index, what = heapq.heappop(heap)
            agent = AgentId(index)
            if isinstance(what, Envelope):
                if index != INTAKE_INDEX:
                    self._arrive(agent, what)
                elif (finished := self._finish(what)) is not None:
                    yield finished
            elif isinstance(what, _Call):
                self._goes_on(agent, what)
            else:
                self._handle(agent, what)
        if until_s != np.inf:
            self.now_s = max(self.now_s, until_s)

    def drain(self) -> list[Stamped]:
        """Measurements since the last call; their wall time is START_WALL_S plus virtual time."""
        records, self._records = self._records, []
        return records

    def snapshots(self) -> list[AgentSnapshot]:
        """What every agent has learned and holds, by agent id."""
        return [
            AgentSnapshot(
                identity=state.identity,
                counts=state.learning.estimates.counts(),
                trajectories=memory.trajectories(),
                holding=tuple(task.task_id for task in state.held()),
                log=tuple(log),
            )
            for state, memory, log in zip(self._states, self._memories, self._logs, strict=True)
        ]

    # What happens

    def _later(self, after_s: float, agent: int, what: _Happening) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now_s + after_s, self._order, agent, what))

    def _tell(self, agent: AgentId, body: Body, after_s: float, task: Task | None = None) -> None:
        sequence = self._sequences.get(agent, 0)
        self._sequences[agent] = sequence + 1
        envelope = about(task, sender=INTAKE, epoch=1, sequence=sequence, body=body)
        self._later(after_s + self._settings.delay_s, agent, envelope)

    def _finish(self, envelope: Envelope) -> Finished | None:
        """A result, once for each task."""
        assert isinstance(envelope.body, Report)
        outcome = envelope.body.outcome
        accepted_s = self._under_way.pop(outcome.task.task_id, None)
        if accepted_s is None:
            return None
        return Finished(
            outcome=outcome,
            latency_s=self.now_s - accepted_s,
            finished_wall_s=START_WALL_S + self.now_s,
        )

    def _arrive(self, agent: AgentId, envelope: Envelope) -> None:
        self._handle(agent, Received(envelope=envelope))
        if isinstance(envelope.body, Forward):
            task = envelope.body.task
            view = self._states[agent].view()
            delivered = Delivered(task_id=task.task_id, forwards=task.forwards, to=agent, view=view)
            self._later(self._settings.delay_s, agent_of(envelope.sender), delivered)

    def _handle(self, agent: AgentId, event: Event) -> None:
        self.events += 1
        rng = self._rngs[agent]
        rng_state = rng.bit_generator.state if self._plan.record_logs else {}
        commands = self._states[agent].handle(event, self.now_s, rng)
        if self._plan.record_logs:
            entry = LogEntry(event=event, now_s=self.now_s, rng_state=rng_state, commands=tuple(commands))
            self._logs[agent].append(entry)
        for command in commands:
            self._carry_out(agent, command)

    def _carry_out(self, agent: AgentId, command: Command) -> None:
        match command:
            case Send(to=to, envelope=envelope):
                receiver = INTAKE_INDEX if to == INTAKE else agent_of(to)
                self._later(self._settings.delay_s, receiver, envelope)
            case Note(record=record):
                self._note(record)
            case Execute(task=task):
                self._step(agent, self._steps[agent].begin(command, self.now_s), task.task_id)
            case Abort(task_id=task_id):
                self._steps[agent].abort(task_id)
                self._later(0.0, agent, Executed(task_id=task_id, result=_cancelled(agent)))
            case Wake(key=key, after_s=after_s):
                self._later(after_s, agent, Woken(key=key))
            case Remember(trajectory=trajectory):
                self._memories[agent].remember(trajectory)

    def _note(self, record: Record) -> None:
        self._records.append(Stamped(wall_s=START_WALL_S + self.now_s, record=record))

    def _count(self, agent: AgentId, what: str) -> None:
        """What a shell counts by itself."""
        if self._records_all:
            self._note(CountRecord(agent=agent, phase="", what=what))

    def _goes_on(self, agent: AgentId, call: _Call) -> None:
        moved = self._steps[agent].go_on(call.task_id, call.token, self.now_s)
        if moved is not None:
            self._step(agent, moved, call.task_id)

    def _step(self, agent: AgentId, moved: "tuple[float, int] | StepResult", task_id: TaskId) -> None:
        """A step that waits for a call, or has ended."""
        if isinstance(moved, StepResult):
            # As an event of its own: an agent is not told of an end while it is still being told of the beginning.
            self._later(0.0, agent, Executed(task_id=task_id, result=moved))
        else:
            after_s, token = moved
            self._later(after_s, agent, _Call(task_id, token))


def _cancelled(agent: AgentId) -> StepResult:
    return StepResult(record=StepRecord(agent=agent, kind="failed", result="cancelled"))
