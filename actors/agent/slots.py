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
    in_slot: bool = True
    """False: a hand-over that needs no slot."""


class Slots:
    """Which tasks hold a slot, and since when."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"an agent needs at least one slot, not {capacity}")
        self.capacity = capacity
        self._held: dict[TaskId, Held] = {}
        self.free = capacity
        """Slots without a task."""

    def __len__(self) -> int:
        """Occupied slots."""
        return self.capacity - self.free

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._held

    def get(self, task_id: TaskId) -> Held | None:
        return self._held.get(task_id)

    def hold(self, held: Held) -> None:
        """Takes a slot for a task that is not here yet."""
        assert held.task.task_id not in self._held, "the task holds a slot already"
        assert self.free > 0 or not held.in_slot, "no free slot"
        self._held[held.task.task_id] = held
        self.free -= held.in_slot

    def release(self, task_id: TaskId, now_s: float) -> Task:
        """Frees the slot; returns its task, aged by the time in it."""
        held = self._held[task_id]
        self.discard(task_id)
        return aged(held.task, now_s - held.since_s)

    def discard(self, task_id: TaskId) -> None:
        """Frees the slot of a task that somebody else has by now."""
        self.free += self._held.pop(task_id).in_slot

    def tasks(self) -> list[Task]:
        return [held.task for held in self._held.values()]
