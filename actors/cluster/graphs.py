"""Builds the graph of agents from its settings, and refuses one that cuts an agent off."""

from collections.abc import Callable, Mapping

import networkx as nx

from actors.cluster.topology import Topology, TopologySettings
from actors.errors import SettingsError
from actors.task import AgentId

Undirected = Callable[[int, TopologySettings], nx.Graph]

_UNDIRECTED: Mapping[str, Undirected] = {
    "complete": lambda n, _: nx.complete_graph(n),
    "chain": lambda n, _: nx.path_graph(n),
    "ring": lambda n, _: nx.cycle_graph(n) if n > 2 else nx.path_graph(n),
    "star": lambda n, _: nx.star_graph(n - 1),
    "k_regular": lambda n, s: nx.random_regular_graph(s.degree, n, seed=s.seed),
    "small_world": lambda n, s: nx.connected_watts_strogatz_graph(n, s.degree, s.probability, seed=s.seed),
    "erdos_renyi": lambda n, s: nx.gnp_random_graph(n, s.probability, seed=s.seed),
}


def build_topology(agents: int, settings: TopologySettings) -> Topology:
    """The graph over `agents` agents. Raises SettingsError naming an agent that no other can reach."""
    if agents < 1:
        raise SettingsError("a pool needs at least one agent")
    graph = nx.DiGraph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from(_edges(agents, settings))
    unreachable = [n for n in graph if agents > 1 and graph.in_degree(n) == 0]
    if unreachable:
        raise SettingsError(
            f"topology {settings.kind!r}: no agent can forward to agent {unreachable[0]}; "
            f"give it an edge, or leave it out of the pool"
        )
    if agents > 1 and not nx.is_weakly_connected(graph):
        island = min(nx.weakly_connected_components(graph), key=len)
        raise SettingsError(
            f"topology {settings.kind!r}: agents {sorted(island)} are cut off from the rest; "
            f"connect them, or raise degree or probability"
        )
    return Topology(
        out_N=tuple(tuple(sorted(AgentId(j) for j in graph.successors(i))) for i in range(agents)),
        in_N=tuple(tuple(sorted(AgentId(j) for j in graph.predecessors(i))) for i in range(agents)),
    )


def _edges(agents: int, settings: TopologySettings) -> list[tuple[int, int]]:
    if settings.kind == "edges":
        for i, j in settings.edges:
            if not (0 <= i < agents and 0 <= j < agents) or i == j:
                raise SettingsError(
                    f"topology edge ({i}, {j}) does not join two of the agents 0..{agents - 1}"
                )
        return list(settings.edges)
    try:
        undirected = _UNDIRECTED[settings.kind](agents, settings)
    except nx.NetworkXError as error:
        raise SettingsError(f"topology {settings.kind!r} over {agents} agents: {error}") from error
    return [edge for i, j in undirected.edges for edge in ((i, j), (j, i))]
