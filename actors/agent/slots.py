"""Executor slots: a task holds one while it is routed or executed (appendix A). Pure."""

from dataclasses import dataclass
from typing import Literal

from actors.agent.queues import aged
from actors.task import AgentId, Task, TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A task in a slot."""

    task: Task
    since_s: float
    doing: Literal["routing", "handing over", "executing"]
    to: AgentId | None = None
    """Receiver of a hand-over."""


class Slots:
    """Which tasks hold a slot, and since when."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"an agent needs at least one slot, not {capacity}")
        self.capacity = capacity
        self._held: dict[TaskId, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._held

    @property
    def free(self) -> int:
        return self.capacity - len(self._held)

    def get(self, task_id: TaskId) -> Held | None:
        return self._held.get(task_id)

    def hold(self, held: Held) -> None:
        """Takes a slot, or changes what its task is doing. Needs a free slot for a new task."""
        assert held.task.task_id in self._held or self.free > 0, "no free slot"
        self._held[held.task.task_id] = held

    def release(self, task_id: TaskId, now_s: float) -> Task:
        """Frees the slot; returns its task, aged by the time in it."""
        held = self._held.pop(task_id)
        return aged(held.task, now_s - held.since_s)

    def tasks(self) -> list[Task]:
        return [held.task for held in self._held.values()]
