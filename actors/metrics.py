"""What is measured, as values. The state emits them as notes; the shell stamps and stores them. Pure."""

from dataclasses import dataclass
from typing import Literal

from actors.task import AgentId, TaskId, TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One neighbour as a decision saw it."""

    agent: AgentId
    score: float
    waiting: int
    """Its last known backlog of the task's type."""
    quality: float
    age_s: float | None
    """Age of that knowledge; None where nothing was ever heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One routing decision with everything it rested on."""

    agent: AgentId
    task_id: TaskId
    task_type: TaskType
    phase: str
    chosen: AgentId | None
    """None: kept."""
    reason: str
    waiting: int
    """Own backlog of the type, the task being routed included."""
    quality: float
    candidates: tuple[Candidate, ...]
    hops: int
    task_age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRecord:
    """A task entered an agent's queue."""

    agent: AgentId
    task_id: TaskId
    task_type: TaskType
    phase: str
    how: Literal["submitted", "forwarded", "split", "returned"]
    """returned: a hand-over failed and the task is back in the queue it came from."""
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """An execution step ended."""

    agent: AgentId
    task_id: TaskId
    task_type: TaskType
    phase: str
    kind: Literal["executed", "split", "forwarded", "failed"]
    duration_s: float
    execution_s: float
    prompt_tokens: int
    completion_tokens: int
    calls: int
    dropped_demonstrations: int
    fallbacks: int
    recall_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord:
    """An agent's load, whenever it tells its neighbours of it. Axis T follows the plan's task types."""

    agent: AgentId
    phase: str
    waiting_T: tuple[int, ...]
    in_service: int
    quality_T: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRecord:
    """Something worth counting happened: a duplicate, an unknown message, a dropped pending trajectory."""

    agent: AgentId
    phase: str
    what: str


Record = DecisionRecord | ArrivalRecord | ExecutionRecord | QueueRecord | CountRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """A record with the wall-clock time at which its agent wrote it (s since the epoch)."""

    wall_s: float
    record: Record
