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
        self.in_service_J = np.zeros(count, dtype=np.int64)
        self.slots_J = np.ones(count, dtype=np.int64)
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
        self.in_service_J[j] = view.in_service
        self.slots_J[j] = view.slots
        self.measured_at_s_J[j] = now_s - view.age_s
        return True
