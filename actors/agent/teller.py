"""When an agent tells its neighbours of itself, and what it tells its own steps of them. Pure."""

import math
from collections.abc import Set as AbstractSet

from actors.routing.view import NeighbourTable
from actors.steps.moves import Colleague
from actors.task import AgentId


class Teller:
    """A view goes out on a change, at most once an interval."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._told: object = None
        self._told_at_s = -math.inf
        self._waiting = False

    def wait_s(self, news: object, now_s: float) -> float | None:
        """0: tell now, which counts as done; more: come back after so long; None: nothing to do."""
        if news == self._told:
            return None
        due_s = self._told_at_s + self._interval_s
        if now_s < due_s:
            self._waiting = True
            return due_s - now_s
        self._told, self._told_at_s = news, now_s
        return 0.0

    def waits(self, now_s: float) -> bool:
        """Whether the next view is on its way to its time already: nothing need be looked at before."""
        return self._waiting and now_s < self._told_at_s + self._interval_s

    def woken(self) -> None:
        """The time that was to be waited for has come."""
        self._waiting = False

    def forget(self) -> None:
        """Whatever was told last is told again."""
        self._told = None


def colleagues(table: NeighbourTable, type_index: int, closed: AbstractSet[AgentId]) -> tuple[Colleague, ...]:
    """The neighbours that a task may go to, as last heard of."""
    return tuple(
        Colleague(
            agent=agent,
            quality=float(table.quality_TJ[type_index, j]),
            load=int(table.load_J[j]),
            slots=int(table.slots_J[j]),
        )
        for j, agent in enumerate(table.ids_J)
        if agent not in closed
    )
