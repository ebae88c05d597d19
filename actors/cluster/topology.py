"""The graph of agents: which neighbours each may forward to. Loads nothing heavy; `graphs` builds it."""

from dataclasses import dataclass
from typing import Literal

from actors.config import Settings
from actors.task import AgentId


class TopologySettings(Settings):
    """A fixed directed graph. The paper ran complete graphs; everything else is its future work."""

    kind: Literal["complete", "chain", "ring", "star", "k_regular", "small_world", "erdos_renyi", "edges"] = (
        "complete"
    )
    degree: int = 4
    """Of k_regular and small_world."""
    probability: float = 0.1
    """Of an edge (erdos_renyi) or of rewiring (small_world)."""
    seed: int = 1
    """Of the random kinds."""
    edges: tuple[tuple[int, int], ...] = ()
    """Of kind edges: directed (from, to) pairs of agent indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Directed neighbours of each agent, ascending. Axis N: agents."""

    out_N: tuple[tuple[AgentId, ...], ...]
    in_N: tuple[tuple[AgentId, ...], ...]
