"""A plan on Ray: agents, replicas, encoder and intake are actors; the plain classes are wrapped here.

Each agent host shares a placement-group bundle with its replicas, yet each is a process of its own: an engine
that dies takes no queue with it, and comes back by itself. One private replica an agent, the encoder apart, is
the set-up of the DEALS paper.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from actors.agent.actor import AgentActor
from actors.agent.shell import AgentSnapshot
from actors.clock import MonotonicClock
from actors.cluster.intake import Intake
from actors.cluster.placement import (
    HostPlacement,
    encoder_gpus,
    host_name,
    largest_first,
    place,
    replica_name,
    shortfall,
)
from actors.cluster.plan import INTAKE, AgentPlan, Plan
from actors.cluster.ray_connection import RayConnection, connect, disconnect
from actors.cluster.ray_health import Watch
from actors.cluster.ray_intake import RayIntakePort
from actors.cluster.ray_metrics import RayMetrics
from actors.cluster.ray_peers import ActorHandle, RayConnect, RayEmbedder, RayModel, own_error
from actors.cluster.ray_replicas import EncoderHost, ModelHost
from actors.cluster.ray_settings import RaySettings
from actors.errors import ClusterError, TradewindsError
from actors.messages import Body, agent_address
from actors.metrics import Stamped
from serving.api import BackendSpec, EncoderSpec
from serving.build import environment
from serving.errors import ServingError

ENCODER = "encoder"
INTAKE_NAME = "intake"
LOCAL_PLACEMENT_TIMEOUT_S = 15.0
PLACEMENT_POLL_S = 0.1
FAREWELL_S = 2.5
"""How long actors may take to put their work down before they are ended."""
CALLS_AT_ONCE = 1000
"""Of one actor; more wait in its queue."""


class RayCluster:
    """A running plan on Ray."""

    def __init__(self, plan: Plan, settings: RaySettings | None = None) -> None:
        self._plan = plan
        self._settings = settings or RaySettings()
        self.namespace = f"{plan.name}-{time.time_ns():x}"
        """Of this run's actors; their names are readable within it."""
        self._connection: RayConnection | None = None
        self._groups: list[PlacementGroup] = []
        self._hosts: dict[str, ActorHandle] = {}
        self._replicas: dict[str, ActorHandle] = {}
        self._actors: dict[str, ActorHandle] = {}
        """All of this run, encoder and intake included, by name."""
        self._watch = Watch(self._settings.control_timeout_s)
        self.intake = RayIntakePort(self._watch)

    async def start(self) -> None:
        """Starts encoder, models and agents. Raises ClusterError naming what could not start; nothing stays."""
        try:
            await self._start()
        except ServingError as error:
            await self.close()
            raise ClusterError(f"plan {self._plan.name!r} could not start: {error}") from error
        except RayError as error:
            await self.close()
            raise ClusterError(f"plan {self._plan.name!r} could not start on Ray: {error}") from error
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        plan, settings = self._plan, self._settings
        self._connection = connect(settings, local_cpus=settings.replica_cpus * (len(plan.agents) + 1))
        cluster_gpus = ray.cluster_resources().get("GPU", 0)
        with_gpus = settings.gpus == "always" or (settings.gpus == "auto" and cluster_gpus > 0)
        placements = place(plan, replica_cpus=settings.replica_cpus, with_gpus=with_gpus)
        groups = await self._reserve(placements)
        encoder = self._launch_encoder(placements, cluster_gpus)
        for placement, group in zip(placements, groups, strict=True):
            for agent in placement.agents:
                self._launch_replica(agent, placement, group)
        loading = [
            self._load(self._replicas[replica_name(agent)], f"agent {agent.name}: model {_model(agent)}")
            for agent in plan.agents
        ]
        if encoder is not None:
            loading.append(self._load(encoder, ENCODER))
        await _together(loading)
        self._launch_intake()
        for placement, group in zip(placements, groups, strict=True):
            self._launch_host(placement, group, encoder)
        await _together(
            [self._load(host, f"agent {name}", plan.learned) for name, host in self._hosts.items()]
        )
        self._watch.over(self._hosts, self._replicas)

    # What an experiment uses

    async def broadcast(self, body: Body) -> None:
        await self.intake.broadcast([agent.agent for agent in self._plan.agents], body)

    async def drain(self) -> list[Stamped]:
        """Measurements since the last call. Raises ClusterError naming an agent or replica that is gone."""
        await self._watch.check()
        answers = await self._ask_hosts("drain")
        return [stamped for answer in answers for stamped in answer]

    async def snapshots(self) -> list[AgentSnapshot]:
        answers = await self._ask_hosts("snapshots")
        return [snapshot for answer in answers for snapshot in answer]

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if ray.is_initialized():
                await self._end_actors()
        finally:
            disconnect(connection)

    # Starting

    async def _reserve(self, placements: Sequence[HostPlacement]) -> list[PlacementGroup]:
        """A bundle for each host, once the cluster has room for all of them."""
        assert self._connection is not None
        can_grow = self._connection.kind != "started"
        timeout_s = self._settings.placement_timeout_s if can_grow else LOCAL_PLACEMENT_TIMEOUT_S
        deadline_s = time.monotonic() + timeout_s
        groups = {
            placement.name: placement_group([placement.bundle], name=f"{self.namespace}/{placement.name}")
            for placement in largest_first(placements)
        }
        self._groups = list(groups.values())
        while waiting := [placement for placement in placements if not groups[placement.name].wait(0)]:
            if time.monotonic() > deadline_s:
                missing = shortfall(waiting, placements, ray.cluster_resources())
                raise ClusterError(
                    f"plan {self._plan.name!r}: {missing} (waited {timeout_s:g} s); take a smaller pool, "
                    f"lower replica_cpus or tensor_parallel, or add nodes"
                )
            await asyncio.sleep(PLACEMENT_POLL_S)
        return [groups[placement.name] for placement in placements]

    def _launch_encoder(self, placements: Sequence[HostPlacement], cluster_gpus: float) -> ActorHandle | None:
        spec = self._plan.encoder
        if spec is None:
            return None
        return self._launch(
            EncoderHost,
            ENCODER,
            (spec,),
            num_cpus=self._settings.replica_cpus,
            num_gpus=encoder_gpus(spec, placements, cluster_gpus),
            max_restarts=self._settings.max_restarts,
            **_environment(spec),
        )

    def _launch_replica(self, agent: AgentPlan, placement: HostPlacement, group: PlacementGroup) -> None:
        name = replica_name(agent)
        self._replicas[name] = self._launch(
            ModelHost,
            name,
            (agent.backend,),
            num_cpus=placement.replica_cpus,
            num_gpus=placement.gpus[agent.name],
            max_restarts=self._settings.max_restarts,
            **_environment(agent.backend),
            scheduling_strategy=_beside(group),
        )

    def _launch_host(
        self, placement: HostPlacement, group: PlacementGroup, encoder: ActorHandle | None
    ) -> None:
        plan, epoch = self._plan, time.time_ns()
        self._hosts[placement.name] = self._launch(
            AgentActor,
            placement.name,
            ([plan.identity(agent.agent, epoch) for agent in placement.agents], plan.settings),
            keywords={
                "models": {agent.agent: self._model(agent) for agent in placement.agents},
                "embedder": None if encoder is None else RayEmbedder(encoder, ENCODER),
                "connect": self._connect(),
                "seed": plan.seed,
                "observe": RayMetrics({agent.agent: agent.name for agent in plan.agents}, plan.types),
                "record_logs": plan.record_logs,
            },
            num_cpus=0,
            scheduling_strategy=_beside(group),
        )

    def _launch_intake(self) -> None:
        intake = self._launch(
            Intake,
            INTAKE_NAME,
            (self._connect(), MonotonicClock(), time.time_ns()),
            num_cpus=0,
            # Beside the driver: it does no work to speak of, and the run cannot outlive either.
            scheduling_strategy=NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            ),
        )
        self.intake.attach(intake)

    def _model(self, agent: AgentPlan) -> RayModel:
        name = replica_name(agent)
        return RayModel(self._replicas[name], name)

    def _connect(self) -> RayConnect:
        names = {agent_address(agent.agent): host_name(host) for host in self._plan.hosts() for agent in host}
        return RayConnect(namespace=self.namespace, names={INTAKE: INTAKE_NAME, **names})

    def _launch(
        self,
        plain: type,
        name: str,
        arguments: tuple[Any, ...],
        *,
        keywords: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ActorHandle:
        """Wraps a plain class, which Ray then ships by reference.

        Ray runs each concurrency group on a thread and event loop of its own. All that touches an actor's state
        therefore shares the default one; `control` only answers whether the process is there, at any load.
        """
        if name in self._actors:
            raise ClusterError(
                f"plan {self._plan.name!r}: two actors would be called {name!r}; rename an agent"
            )
        actor_class = ray.remote(
            max_concurrency=CALLS_AT_ONCE, concurrency_groups={"control": 4}, max_task_retries=0
        )(plain)
        handle: ActorHandle = actor_class.options(name=name, namespace=self.namespace, **options).remote(
            *arguments, **(keywords or {})
        )
        self._actors[name] = handle
        return handle

    async def _load(self, actor: ActorHandle, what: str, *arguments: Any) -> None:
        """Runs an actor's start to its end. Raises ClusterError naming `what` could not start, and why."""
        timeout_s = self._settings.start_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await actor.start.remote(*arguments)
        except TimeoutError:
            cause = f"not ready after {timeout_s:g} s; raise start_timeout_s if it only needs longer"
        except RayError as error:
            own = own_error(error)
            if isinstance(own, TradewindsError):  # a setting, say: as in this process
                raise own from None
            cause = str(own) if isinstance(own, ServingError) else repr(own) if own else str(error)
            if isinstance(error, RayActorError):
                cause = f"its process died while starting, often for want of memory ({error})"
        else:
            return
        raise ClusterError(f"plan {self._plan.name!r} could not start: {what}: {cause}")

    # Asking and ending

    async def _ask_hosts(self, method: str) -> list[Any]:
        return await _together(
            [self._watch.ask(getattr(host, method), f"agent {name}") for name, host in self._hosts.items()]
        )

    async def _end_actors(self) -> None:
        """Lets every actor put its work down, agents first; then ends them, ready or not."""
        self._watch.over({}, {})
        loaded = [actor for name, actor in self._actors.items() if name in {*self._replicas, ENCODER}]
        try:
            await asyncio.gather(*map(_farewell, self._hosts.values()))
            await asyncio.gather(*map(_farewell, loaded))
        finally:
            for actor in self._actors.values():
                ray.kill(actor)
            for group in self._groups:
                remove_placement_group(group)
            self._actors, self._hosts, self._replicas, self._groups = {}, {}, {}, []


async def _farewell(actor: ActorHandle) -> None:
    """An actor that is gone, or too busy to answer, gets no more time."""
    with suppress(RayError, TimeoutError):
        async with asyncio.timeout(FAREWELL_S):
            await actor.close.remote()


def _beside(group: PlacementGroup) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=0)


def _environment(spec: BackendSpec | EncoderSpec) -> dict[str, Any]:
    """Variables set before the process imports anything; without any, a process that Ray has ready will do."""
    variables = environment(spec)
    return {"runtime_env": {"env_vars": variables}} if variables else {}


def _model(agent: AgentPlan) -> str:
    return agent.backend.model or agent.backend.kind


async def _together(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All results in order; the first failure ends the rest."""
    running = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
