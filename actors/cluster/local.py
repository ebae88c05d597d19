"""A plan in this process: asyncio, no Ray. The same agents, intake and messages as on Ray."""

import asyncio
import time
from collections.abc import Sequence

from actors.agent.actor import AgentActor
from actors.agent.shell import AgentSnapshot
from actors.clock import MonotonicClock
from actors.cluster.intake import Intake
from actors.cluster.plan import INTAKE, Plan
from actors.errors import ClusterError
from actors.messages import Address, AgentView, Body, Envelope, agent_of
from actors.metrics import Stamped
from actors.peer import Peer
from actors.task import AgentId
from serving.api import Backend, Encoder
from serving.build import build_backend, build_encoder
from serving.errors import ServingError


class LocalAgentPeer:
    """An agent in this process."""

    def __init__(self, actor: AgentActor, agent: AgentId) -> None:
        self._actor = actor
        self._agent = agent

    async def send(self, envelope: Envelope) -> AgentView | None:
        return await self._actor.on(self._agent, envelope)


class LocalIntakePeer:
    """The intake in this process."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def send(self, envelope: Envelope) -> None:
        await self._intake.on(envelope)


class LocalCluster:
    """A running plan in this process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._actors: dict[AgentId, AgentActor] = {}
        self._backends: list[Backend] = []
        self._encoder: Encoder | None = None
        self.intake = Intake(self._connect, MonotonicClock(), epoch=time.time_ns())

    async def start(self) -> None:
        """Starts encoder, models and agents. Raises ClusterError naming what could not start; nothing stays."""
        try:
            await self._start()
        except ServingError as error:
            await self.close()
            raise ClusterError(f"plan {self._plan.name!r} could not start: {error}") from error
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        plan = self._plan
        if plan.encoder is not None:
            self._encoder = build_encoder(plan.encoder)
            await self._encoder.start()
        models: dict[AgentId, Backend] = {}
        for agent in plan.agents:
            backend = models[agent.agent] = build_backend(agent.backend)
            self._backends.append(backend)
            await backend.start()
        epoch = time.time_ns()
        for host in plan.hosts():
            actor = AgentActor(
                [plan.identity(agent.agent, epoch) for agent in host],
                plan.settings,
                models=models,
                embedder=self._encoder,
                connect=self._connect,
                seed=plan.seed,
                record_logs=plan.record_logs,
            )
            await actor.start(plan.learned)
            self._actors.update((agent.agent, actor) for agent in host)

    def _connect(self, to: Address) -> Peer:
        if to == INTAKE:
            return LocalIntakePeer(self.intake)
        agent = agent_of(to)
        if agent not in self._actors:
            raise ClusterError(
                f"plan {self._plan.name!r} has no agent {agent}; it has {len(self._plan.agents)}"
            )
        return LocalAgentPeer(self._actors[agent], agent)

    async def broadcast(self, body: Body) -> None:
        await self.intake.broadcast([agent.agent for agent in self._plan.agents], body)

    async def drain(self) -> list[Stamped]:
        return [stamped for actor in self._hosts() for stamped in await actor.drain()]

    async def snapshots(self) -> list[AgentSnapshot]:
        return [snapshot for actor in self._hosts() for snapshot in await actor.snapshots()]

    async def close(self) -> None:
        for actor in self._hosts():
            await actor.close()
        closing = [backend.close() for backend in self._backends]
        if self._encoder is not None:
            closing.append(self._encoder.close())
        await asyncio.gather(*closing)

    def _hosts(self) -> Sequence[AgentActor]:
        """Each actor once, by its first agent."""
        return list(dict.fromkeys(self._actors.values()))
