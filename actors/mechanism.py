"""How a task finds its agent: the seam that every mechanism fills. Pure.

An agent takes a task from its longest queue into a free slot and tells its mechanism (`Dispatched`). The
mechanism answers, at once or after talking to its peers, with exactly one `Keep` or `ForwardTo` for it; the
task holds its slot until then.

A mechanism that asks for it (its settings say so) is also told of a task before it is queued (`Arrived`), of free
slots without work (`Idle`) and of each task that ended (`Completed`). A `ForwardTo` may then name a task that
has just arrived, or one that waits in a queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from actors.messages import MechanismBody
from actors.metrics import Candidate
from actors.routing.scores import Floats
from actors.routing.view import NeighbourTable
from actors.task import AgentId, Task, TaskId


class WaitingTasks(Protocol):
    """The agent's own queues, to read."""

    def __len__(self) -> int:
        """Waiting tasks of all types."""

    def oldest(self, type_index: int) -> Iterator[Task]:
        """Waiting tasks of a type, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalView:
    """What a mechanism may read of its own agent: local information only (DEALS section 3.2). Axis T follows
    the plan's task types."""

    agent: AgentId
    type_index: dict[str, int]
    waiting_T: Floats
    """Queued tasks by type; a task that is being routed is no longer among them."""
    quality_T: Floats
    tries_T: Floats
    """Verdicts behind each estimate."""
    slots: int
    in_service: int
    """Occupied slots; a task that is being routed at dispatch is among them."""
    service_s: float
    """Own recent mean time of an execution step; 0 before the first has ended."""
    neighbours: NeighbourTable
    quality_weight: float
    """V of the current phase."""
    learning: bool
    """Whether verdicts count in the current phase."""
    warmup: bool
    """Whether the current phase is there to learn from."""
    queued: "WaitingTasks"
    unreachable: frozenset[AgentId]
    """Neighbours for which a hand-over has failed and who were not heard of since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """A task took a slot; where shall it go?"""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A task came in and is not queued yet. `ForwardTo` sends it on; no answer queues it."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A slot is free and nothing waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A task ended here."""

    age_s: float
    """From its acceptance on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSaid:
    """Another agent's instance of the mechanism sent this."""

    sender: AgentId
    body: MechanismBody


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A timer that the mechanism set has run down."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Execute the task here."""

    task_id: TaskId
    reason: str
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTo:
    """Hand the task over to a neighbour."""

    task_id: TaskId
    to: AgentId
    reason: str
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Send a message to another agent's instance of the mechanism."""

    to: AgentId
    body: MechanismBody


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Wake the mechanism after so many seconds."""

    key: str
    after_s: float


MechanismEvent = Dispatched | Arrived | Idle | Completed | PeerSaid | TimerFired
MechanismCommand = Keep | ForwardTo | Tell | SetTimer


class Mechanism(Protocol):
    """Decides where tasks go. May keep a state of its own, which only events change."""

    def on_event(
        self, event: MechanismEvent, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> list[MechanismCommand]: ...
