"""Everything that crosses an actor border: one frozen type each, and the envelope around it. Pure."""

from dataclasses import dataclass
from functools import cache
from typing import NewType

from actors.task import AgentId, Outcome, Task, TaskId, TaskType

Address = NewType("Address", str)
"""`agent:<id>`, `intake:<id>` or `driver`."""


@cache
def agent_address(agent: AgentId) -> Address:
    """Where an agent's messages go."""
    return Address(f"agent:{agent}")


@cache
def agent_of(address: Address) -> AgentId:
    """The agent behind an address; ValueError for any other."""
    return AgentId(int(address.removeprefix("agent:")))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """What an agent says of itself. Axis T follows the plan's task types."""

    agent: AgentId
    version: int
    """Grows with each view of one incarnation; an older one never replaces a newer one."""
    epoch: int
    """The incarnation that speaks; a restarted agent has a higher one."""
    waiting_T: tuple[int, ...]
    """Queued tasks by type."""
    quality_T: tuple[float, ...]
    """Estimated success probability by type."""
    in_service: int
    """Occupied slots."""
    slots: int
    service_s: float = 0.0
    """Recent mean time of an execution step; 0 before the first has ended."""
    tries_T: tuple[int, ...] = ()
    """Verdicts behind each estimate; empty where they are not told."""
    age_s: float = 0.0
    """How old the view was when it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A new task enters the graph here."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """The sender hands a task over; it keeps its slot until the receiver has answered."""

    task: Task
    view: AgentView
    """Of the sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gossip:
    """The sender's view of itself, to its in-neighbours."""

    view: AgentView


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A task has ended."""

    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """A verifier's verdict on a task, to every agent in its trail."""

    task_id: TaskId
    task_type: TaskType
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Give a task up; its report says so. Goes to every agent, since the task may be on its way between two; its
    id is not used again."""

    task_id: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPhase:
    """Starts a phase of a run (DEALS section 3.4)."""

    phase: str
    quality_weight: float
    """V of this phase."""
    frozen: bool
    """Whether success estimates and memories stand still."""
    warmup: bool = False
    """Whether tasks are there to be learned from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismBody:
    """Base of the messages a mechanism sends between its own instances."""


Body = Submit | Forward | Gossip | Report | Credit | Cancel | SetPhase | MechanismBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message on its way."""

    sender: Address
    epoch: int
    """The sender's incarnation; sequences start anew with each."""
    sequence: int
    """Counts the messages from this sender to this receiver; a repeated one is a duplicate."""
    body: Body
    task_id: TaskId | None = None
    attempt: int = 0
    remaining_s: float | None = None
    """Time left for the task when this was sent; None: no deadline."""
    age_s: float = 0.0
    """Age of the task when this was sent."""
    view: AgentView | None = None
    """Of the sender, where a mechanism's message carries one."""
    tenant: str = "default"
    trace_id: str = ""


def about(
    task: Task | None,
    *,
    sender: Address,
    epoch: int,
    sequence: int,
    body: Body,
    task_id: TaskId | None = None,
) -> Envelope:
    """An envelope that repeats what `task` says of itself."""
    if task is None:
        return Envelope(sender=sender, epoch=epoch, sequence=sequence, body=body, task_id=task_id)
    return Envelope(
        sender=sender,
        epoch=epoch,
        sequence=sequence,
        body=body,
        task_id=task.task_id,
        attempt=task.attempt,
        remaining_s=task.remaining_s,
        age_s=task.age_s,
        tenant=task.tenant,
        trace_id=task.trace_id,
    )
