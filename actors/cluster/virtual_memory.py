"""One agent's trajectory memory under virtual time: keeping and finding take none."""

from actors.agent.actor import build_trajectories
from actors.cluster.plan import Plan
from actors.steps.moves import Recollection
from retrieval.api import Trajectory
from retrieval.memory import TrajectoryMemory
from serving.api import VirtualEncoder
from serving.build import build_virtual_encoder


class VirtualMemory:
    """Trajectories with the encoder that makes their vectors; without either, nothing is kept and nothing found."""

    def __init__(self, memory: TrajectoryMemory | None = None, encoder: VirtualEncoder | None = None) -> None:
        self._memory = memory
        self._encoder = encoder

    def remember(self, trajectory: Trajectory) -> None:
        if self._memory is not None and self._encoder is not None:
            self._memory.remember(trajectory, self._encoder.vectors([trajectory.key_text])[0])

    def recall(self, key_text: str) -> Recollection:
        if self._memory is None or self._encoder is None or not len(self._memory):
            return Recollection()
        return Recollection(found=tuple(self._memory.recall(self._encoder.vectors([key_text])[0])))

    def trajectories(self) -> tuple[Trajectory, ...]:
        """Oldest first."""
        return () if self._memory is None else tuple(entry.trajectory for entry in self._memory)


def memories_of(plan: Plan) -> list[VirtualMemory]:
    """A memory for each agent of a plan whose encoder needs no time (`hashing`); else such as find nothing."""
    encoder = build_virtual_encoder(plan.encoder) if plan.encoder is not None else None
    if encoder is None:
        return [VirtualMemory() for _ in plan.agents]
    dimensions = encoder.vectors([""]).shape[1]
    return [VirtualMemory(build_trajectories(plan.settings.memory, dimensions), encoder) for _ in plan.agents]
