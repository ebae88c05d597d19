"""What an experiment sees of a running plan, the same on every runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.agent.shell import AgentSnapshot
from actors.messages import Body
from actors.metrics import Stamped
from actors.task import AgentId, Outcome, Task, TaskId, TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A task that ended, as its intake saw it."""

    outcome: Outcome
    latency_s: float
    """From acceptance to the report."""
    finished_wall_s: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verifier's word on a finished task."""

    task_id: TaskId
    task_type: TaskType
    agents: tuple[AgentId, ...]
    """Every agent that executed or split it."""
    success: bool


class IntakePort(Protocol):
    """Where tasks enter and results come out."""

    async def submit(self, tasks: Sequence[tuple[AgentId, Task]]) -> None:
        """Accepts tasks, each at its arrival agent. Raises Final for a task id that is still under way."""

    async def collect(self, timeout_s: float) -> list[Finished]:
        """Results since the last call; waits up to `timeout_s` for the first."""

    async def credit(self, verdicts: Sequence[Verdict]) -> None:
        """Sends verdicts to the agents in each trail; returns when all have them."""


class Cluster(Protocol):
    """A plan that runs. Closing it ends everything it started."""

    @property
    def intake(self) -> IntakePort:
        """Where tasks enter and results come out."""

    async def broadcast(self, body: Body) -> None:
        """A control message to every agent; returns when all have it."""

    async def drain(self) -> list[Stamped]:
        """Measurements since the last call. Raises ClusterError naming an agent that is gone for good."""

    async def snapshots(self) -> list[AgentSnapshot]:
        """What every agent has learned and holds, by agent id."""

    async def close(self) -> None:
        """May be called twice."""


class StartableCluster(Cluster, Protocol):
    """A plan that a runtime has not started yet."""

    async def start(self) -> None:
        """Raises ClusterError naming what could not start; nothing stays."""
