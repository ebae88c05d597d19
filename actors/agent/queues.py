"""One FIFO queue for each task type (DEALS section 3.1). Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from actors.routing.scores import Floats
from actors.task import Task, TaskId, TaskType

QueueOrder = Literal["longest", "longest_then_oldest", "oldest"]


def aged(task: Task, by_s: float, **changes: Any) -> Task:
    """The task, `by_s` seconds later, with changes."""
    if by_s <= 0:
        return replace(task, **changes) if changes else task
    remaining_s = None if task.remaining_s is None else task.remaining_s - by_s
    return replace(task, age_s=task.age_s + by_s, remaining_s=remaining_s, **changes)


class TypedQueues:
    """Waiting tasks by type, each with the time at which it was queued."""

    def __init__(self, types: Sequence[TaskType]) -> None:
        self._types = tuple(types)
        self.index: dict[str, int] = {name: c for c, name in enumerate(self._types)}
        self._queues: list[deque[tuple[float, Task]]] = [deque() for _ in self._types]
        self.waiting_T: Floats = np.zeros(len(self._types))
        """Tasks by type, shape (T,); changed in place."""
        self._ids: set[TaskId] = set()

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def push(self, task: Task, now_s: float) -> None:
        """To the end of its type's queue. The type must be one of ours, the task not yet here."""
        self._add(task, now_s, at_front=False)

    def push_front(self, task: Task, now_s: float) -> None:
        """Back to the head of its type's queue, after a hand-over that failed."""
        self._add(task, now_s, at_front=True)

    def pop_next(self, order: QueueOrder, now_s: float) -> Task:
        """The oldest task of the type whose turn it is. Needs one task."""
        c = self._longest() if order == "longest" else self._oldest_head(order)
        queued_at_s, task = self._queues[c].popleft()
        self._took(c, task)
        return aged(task, now_s - queued_at_s)

    def _longest(self) -> int:
        """Ties go to the first type (DEALS appendix A)."""
        return int(self.waiting_T.argmax())

    def _oldest_head(self, order: QueueOrder) -> int:
        """The type whose head has waited longest, of all types or of those with the longest queue."""
        least = 1.0 if order == "oldest" else self.waiting_T.max()
        return min(
            (c for c, queue in enumerate(self._queues) if len(queue) >= least),
            key=lambda c: self._queues[c][0][0],
        )

    def oldest(self, type_index: int) -> Iterator[Task]:
        """Waiting tasks of a type, oldest first; as they were when they were queued."""
        return (task for _, task in self._queues[type_index])

    def remove(self, task_id: TaskId, now_s: float) -> Task | None:
        """Takes one task out, wherever it waits; None if it is not here."""
        if task_id not in self._ids:
            return None
        for c, queue in enumerate(self._queues):
            for position, (queued_at_s, task) in enumerate(queue):
                if task.task_id == task_id:
                    del queue[position]
                    self._took(c, task)
                    return aged(task, now_s - queued_at_s)
        return None

    def waiting(self) -> tuple[int, ...]:
        """Tasks by type, as plain numbers."""
        return tuple(map(len, self._queues))

    def tasks(self) -> list[Task]:
        """All waiting tasks, by type and then oldest first."""
        return [task for queue in self._queues for _, task in queue]

    def _add(self, task: Task, now_s: float, *, at_front: bool) -> None:
        c = self.index[task.task_type]
        (self._queues[c].appendleft if at_front else self._queues[c].append)((now_s, task))
        self.waiting_T[c] += 1
        self._ids.add(task.task_id)

    def _took(self, c: int, task: Task) -> None:
        self.waiting_T[c] -= 1
        self._ids.remove(task.task_id)
