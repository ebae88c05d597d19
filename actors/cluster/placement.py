"""How much of a cluster each part of a plan asks for. Pure: sums and names, nothing of Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.cluster.plan import AgentPlan, Plan
from serving.api import BackendSpec, EncoderSpec

GPU_BACKENDS = frozenset({"vllm_engine"})
"""Kinds of backend that put their model on GPUs where there are any."""
GPU_ENCODERS = frozenset({"sentence_transformers"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlacement:
    """One agent host with the replicas of its agents: they live in one bundle, so on one node."""

    name: str
    """As the dashboard shows the host: its agent's name, or first..last of several."""
    agents: tuple[AgentPlan, ...]
    replica_cpus: float
    """Of each replica; the host itself asks for none."""
    gpus: Mapping[str, int]
    """GPUs of each replica, by its agent's name."""

    @property
    def bundle(self) -> dict[str, float]:
        """What the host and its replicas reserve together."""
        asked = {"CPU": round(self.replica_cpus * len(self.agents), 4), "GPU": float(sum(self.gpus.values()))}
        return {resource: amount for resource, amount in asked.items() if amount}


def host_name(agents: tuple[AgentPlan, ...]) -> str:
    """The readable name of the actor that hosts `agents`."""
    return agents[0].name if len(agents) == 1 else f"{agents[0].name}..{agents[-1].name}"


def replica_name(agent: AgentPlan) -> str:
    return f"{agent.name}-replica"


def place(plan: Plan, *, replica_cpus: float, with_gpus: bool) -> list[HostPlacement]:
    """One placement for each host of the plan. Without GPUs no replica asks for any."""
    return [
        HostPlacement(
            name=host_name(host),
            agents=host,
            replica_cpus=replica_cpus,
            gpus={agent.name: gpus_of(agent.backend) if with_gpus else 0 for agent in host},
        )
        for host in plan.hosts()
    ]


def largest_first(placements: Sequence[HostPlacement]) -> list[HostPlacement]:
    """The order in which bundles are reserved: small ones first could leave no node with room for a large one."""
    return sorted(placements, key=lambda placement: -placement.bundle.get("GPU", 0))


def gpus_of(spec: BackendSpec) -> int:
    """GPUs that one replica of `spec` takes where there are GPUs."""
    return spec.tensor_parallel if spec.kind in GPU_BACKENDS else 0


def encoder_gpus(spec: EncoderSpec, placements: Sequence[HostPlacement], cluster_gpus: float) -> int:
    """A GPU for the encoder if the replicas leave one; it does on a CPU what it can otherwise."""
    asked = sum(sum(placement.gpus.values()) for placement in placements)
    return int(spec.kind in GPU_ENCODERS and cluster_gpus >= asked + 1)


def shortfall(
    waiting: Sequence[HostPlacement], asked: Sequence[HostPlacement], has: Mapping[str, float]
) -> str:
    """Says what was asked, what is still waiting, and what the cluster has."""
    total: dict[str, float] = {}
    for placement in asked:
        for resource, amount in placement.bundle.items():
            total[resource] = total.get(resource, 0.0) + amount
    return (
        f"no room for {', '.join(placement.name for placement in waiting)}: "
        f"{len(asked)} bundle(s) ask for {_amounts(total)} together, "
        f"each bundle on one node; the cluster has {_amounts(has)} in all"
    )


def _amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{resources.get(name, 0):g} {name}" for name in ("CPU", "GPU"))
