"""The whole program as a value: what every runtime starts from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.agent.identity import AgentIdentity
from actors.agent.learning import Learned
from actors.cluster.topology import Topology
from actors.config import AgentSettings
from actors.messages import Address
from actors.task import AgentId, TaskType
from serving.api import BackendSpec, EncoderSpec

INTAKE = Address("intake:0")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """One agent and the model it is pinned to."""

    agent: AgentId
    name: str
    """As the dashboard and reports show it."""
    slots: int
    backend: BackendSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Agents, graph, models and settings; `agents[i].agent == i`."""

    name: str
    types: tuple[TaskType, ...]
    agents: tuple[AgentPlan, ...]
    topology: Topology
    settings: AgentSettings
    encoder: EncoderSpec | None
    """None: no memory, whatever the settings say."""
    seed: int = 1
    agents_per_actor: int = 1
    record_logs: bool = False
    """Whether each agent keeps its (event, now, rng state) log."""
    learned: Mapping[AgentId, Learned] = field(default_factory=dict)
    """What agents know from the start, in a run that goes on."""

    def identity(self, agent: AgentId, epoch: int) -> AgentIdentity:
        """What the state of `agent` needs to know of itself."""
        return AgentIdentity(
            agent=agent,
            epoch=epoch,
            types=self.types,
            out_neighbours=self.topology.out_N[agent],
            in_neighbours=self.topology.in_N[agent],
            slots=self.agents[agent].slots,
            intake=INTAKE,
        )

    def hosts(self) -> list[tuple[AgentPlan, ...]]:
        """The agents, grouped by the actor that hosts them."""
        size = self.agents_per_actor
        return [self.agents[start : start + size] for start in range(0, len(self.agents), size)]
