"""The actor that hosts agents (one by default): a plain class, wrapped by the runtime that launches it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from actors.agent.identity import AgentIdentity
from actors.agent.learning import Learned
from actors.agent.shell import AgentShell, AgentSnapshot, Embedder, Memory, Model
from actors.agent.state import AgentState
from actors.backpressure.mechanism import Backpressure
from actors.clock import MonotonicClock
from actors.config import AgentSettings, MemorySettings
from actors.messages import Address, AgentView, Envelope
from actors.metrics import Record, Stamped
from actors.peer import Peer, answered
from actors.task import AgentId
from retrieval.build import build_memory
from retrieval.memory import TrajectoryMemory
from retrieval.ranking import RankingSettings

PROBE_TEXT = "dimensions"


def build_state(identity: AgentIdentity, settings: AgentSettings) -> AgentState:
    """A fresh agent with the mechanism that its settings name."""
    return AgentState(identity, settings, Backpressure(settings.mechanism, settings.recorded_candidates))


def build_trajectories(settings: MemorySettings, dimensions: int) -> TrajectoryMemory | None:
    """An empty memory as the settings want it, for vectors of shape (dimensions,); None where they want none."""
    if settings.kind == "none":
        return None
    ranking = RankingSettings(
        limit=settings.limit, minimum_score=settings.minimum_score, time_weight=settings.time_weight
    )
    return build_memory(
        kind=settings.kind, dimensions=dimensions, capacity=settings.capacity, ranking=ranking
    )


class AgentActor:
    """Hosts agents: each has its own state, model, memory and stream of chance."""

    def __init__(
        self,
        identities: Sequence[AgentIdentity],
        settings: AgentSettings,
        *,
        models: Mapping[AgentId, Model],
        embedder: Embedder | None,
        connect: Callable[[Address], Peer],
        seed: int,
        observe: Callable[[Record], None] | None = None,
        record_logs: bool = False,
    ) -> None:
        self._identities = tuple(identities)
        self._settings = settings
        self._models = models
        self._embedder = embedder
        self._connect = connect
        self._seed = seed
        self._observe = observe
        self._record_logs = record_logs
        self._shells: dict[AgentId, AgentShell] = {}

    async def start(self, learned: Mapping[AgentId, Learned]) -> None:
        """Builds the agents; `learned` is what each knows already. Raises ServingError if the encoder is down."""
        dimensions = 0
        if self._embedder is not None and self._settings.memory.kind != "none":
            dimensions = (await self._embedder.encode([PROBE_TEXT])).shape[1]
        for identity in self._identities:
            shell = self._shells[identity.agent] = self._shell(identity, dimensions)
            if identity.agent in learned:
                await shell.restore(learned[identity.agent])

    async def on(self, agent: AgentId, envelope: Envelope) -> AgentView | None:
        """A message for one of the hosted agents."""
        return await self._shells[agent].on(envelope)

    async def on_batch(
        self, agent: AgentId, envelopes: Sequence[Envelope]
    ) -> list[AgentView | Exception | None]:
        """Messages for one of the hosted agents, in order; one that is refused does not harm the others."""
        return [await answered(self.on(agent, envelope)) for envelope in envelopes]

    async def drain(self) -> list[Stamped]:
        """Measurements of all hosted agents since the last call."""
        return [stamped for shell in self._shells.values() for stamped in shell.drain()]

    async def snapshots(self) -> list[AgentSnapshot]:
        return [shell.snapshot() for shell in self._shells.values()]

    async def close(self) -> None:
        for shell in self._shells.values():
            await shell.close()

    def _shell(self, identity: AgentIdentity, dimensions: int) -> AgentShell:
        settings = self._settings
        memory = None
        if self._embedder is not None:
            trajectories = build_trajectories(settings.memory, dimensions)
            if trajectories is not None:
                memory = Memory(trajectories=trajectories, embedder=self._embedder)
        return AgentShell(
            build_state(identity, settings),
            settings,
            model=self._models[identity.agent],
            memory=memory,
            connect=self._connect,
            clock=MonotonicClock(),
            rng=np.random.Generator(np.random.PCG64([self._seed, identity.agent])),
            observe=self._observe,
            record_log=self._record_logs,
        )
