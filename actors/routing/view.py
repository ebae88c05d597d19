"""What an agent knows of its neighbours, as arrays, with the age of each piece. Pure."""

from collections.abc import Sequence

import numpy as np

from actors.messages import AgentView
from actors.routing.scores import Floats
from actors.task import AgentId


class NeighbourTable:
    """Last known state of each out-neighbour. Axes: T task types, J out-neighbours by ascending agent id.

    Before a neighbour was first heard, it counts as idle and of prior quality: the least that can be assumed
    of it without favouring anyone.
    """

    def __init__(self, neighbours: Sequence[AgentId], types: int, prior_quality: float) -> None:
        self.ids_J: tuple[AgentId, ...] = tuple(sorted(neighbours))
        self.column: dict[AgentId, int] = {agent: j for j, agent in enumerate(self.ids_J)}
        count = len(self.ids_J)
        self.waiting_TJ: Floats = np.zeros((types, count))
        self.quality_TJ: Floats = np.full((types, count), prior_quality)
        self.tries_TJ: Floats = np.zeros((types, count))
        """Verdicts behind each estimate."""
        self.load_J: Floats = np.zeros(count)
        """Tasks waiting or in service, of all types."""
        self.slots_J: Floats = np.ones(count)
        self.service_s_J: Floats = np.zeros(count)
        """Recent mean time of an execution step; 0 where none is known."""
        self.in_flight_TJ: Floats = np.zeros((types, count))
        """Tasks that were sent there and not acknowledged yet: no view can count them."""
        self.measured_at_s_J: Floats = np.full(count, -np.inf)
        """On the local clock; minus infinity where nothing was heard."""
        self._newest_J: list[tuple[int, int]] = [(-1, -1)] * count

    def merge(self, view: AgentView, now_s: float) -> bool:
        """Takes a view of a neighbour unless a newer one is known; says whether it did."""
        j = self.column.get(view.agent)
        stamp = (view.epoch, view.version)
        if j is None or stamp <= self._newest_J[j]:
            return False
        self._newest_J[j] = stamp
        self.waiting_TJ[:, j] = view.waiting_T
        self.quality_TJ[:, j] = view.quality_T
        if view.tries_T:
            self.tries_TJ[:, j] = view.tries_T
        self.load_J[j] = sum(view.waiting_T) + view.in_service
        self.slots_J[j] = view.slots
        self.service_s_J[j] = view.service_s
        self.measured_at_s_J[j] = now_s - view.age_s
        return True

    def stamp(self, column: int) -> tuple[int, int]:
        """(epoch, version) of the newest view of a neighbour; (-1, -1) before the first."""
        return self._newest_J[column]

    def sent(self, agent: AgentId, type_index: int) -> None:
        """A task is on its way there."""
        if (j := self.column.get(agent)) is not None:
            self.in_flight_TJ[type_index, j] += 1

    def landed(self, agent: AgentId, type_index: int) -> None:
        """A task that was on its way there has arrived, or is back."""
        if (j := self.column.get(agent)) is not None:
            self.in_flight_TJ[type_index, j] -= 1
