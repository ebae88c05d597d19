"""Which messages and tasks were seen: part of the state, so that a repetition changes nothing. Pure."""

from collections.abc import Iterable

from actors.messages import Address, Envelope
from actors.task import TaskId

WINDOW = 4096
"""Sequences further back than this count as seen; a transport that reorders by more is broken."""


class SeenMessages:
    """Remembers (sender, epoch, sequence) exactly within a window for each sender's incarnation."""

    def __init__(self) -> None:
        self._newest: dict[tuple[Address, int], int] = {}
        self._recent: dict[tuple[Address, int], set[int]] = {}

    def first_time(self, envelope: Envelope) -> bool:
        """Whether this message is new; from now on it is not."""
        key, sequence = (envelope.sender, envelope.epoch), envelope.sequence
        newest = self._newest.get(key, -1)
        recent = self._recent.setdefault(key, set())
        if sequence in recent or sequence <= newest - WINDOW:
            return False
        recent.add(sequence)
        self._newest[key] = newest = max(newest, sequence)
        if len(recent) > 2 * WINDOW:
            self._recent[key] = {kept for kept in recent if kept > newest - WINDOW}
        return True


class RecentTasks:
    """The last `limit` task ids that were added: what is asked about long after is forgotten, so that an agent
    may run for ever."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[TaskId, None] = {}

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._ids

    def add(self, task_id: TaskId) -> None:
        self._ids[task_id] = None
        if len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]

    def update(self, task_ids: Iterable[TaskId]) -> None:
        for task_id in task_ids:
            self.add(task_id)
