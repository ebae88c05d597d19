"""What an agent's state is told, and what it asks its shell to do. Pure.

A command is carried out by one coroutine and comes back as at most one event: a hand-over as `Delivered` or
`Undelivered`, an execution as `Executed`, a timer as `Woken`.
"""

from dataclasses import dataclass

from actors.messages import Address, AgentView, Envelope
from actors.metrics import Record
from actors.routing.quality import Counts
from actors.steps.moves import StepResult, Surroundings
from actors.task import AgentId, Task, TaskId
from retrieval.api import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message arrived."""

    envelope: Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The receiver of a forward has the task."""

    task_id: TaskId
    forwards: int
    """Of the task as it was handed over: which of its hand-overs this ends."""
    to: AgentId
    view: AgentView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """The receiver of a forward did not answer; it may have the task all the same."""

    task_id: TaskId
    forwards: int
    to: AgentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """A step ended; its record is of kind failed where it could not be carried to its end."""

    task_id: TaskId
    result: StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """A timer has run down."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Learned state of an earlier run, before any task. Trajectories go to the memory by the shell."""

    counts: Counts
    credited: tuple[TaskId, ...]


Event = Received | Delivered | Undelivered | Executed | Woken | Restore


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Hand a message over."""

    to: Address
    envelope: Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Run one step on the task that holds a slot."""

    task: Task
    surroundings: Surroundings | None = None
    """For step machines that route by themselves."""
    may_split: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Stop the step of this task; its model call is cancelled down to the engine."""

    task_id: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Put a credited trajectory into the memory."""

    trajectory: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Come back with `Woken` after so many seconds."""

    key: str
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Store a measurement."""

    record: Record


Command = Send | Execute | Abort | Remember | Wake | Note
