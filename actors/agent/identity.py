"""Who an agent is: what differs from one agent of a plan to the next. Pure."""

from dataclasses import dataclass

from actors.messages import Address
from actors.task import AgentId, TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """Who an agent is in its graph: what differs from one agent of a plan to the next."""

    agent: AgentId
    epoch: int
    """Incarnation of the process that holds the state."""
    types: tuple[TaskType, ...]
    out_neighbours: tuple[AgentId, ...]
    in_neighbours: tuple[AgentId, ...]
    slots: int
    intake: Address
