"""Graphs of agents."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.cluster.graphs import build_topology
from actors.cluster.topology import Topology, TopologySettings
from actors.errors import SettingsError


def edges(topology: Topology) -> set[tuple[int, int]]:
    return {(i, j) for i, out in enumerate(topology.out_N) for j in out}


def build(agents: int, **settings: object) -> Topology:
    return build_topology(agents, TopologySettings(**settings))  # type: ignore[arg-type]


@given(
    agents=st.integers(1, 12),
    kind=st.sampled_from(("complete", "chain", "ring", "star", "k_regular", "small_world", "erdos_renyi")),
    degree=st.integers(1, 4),
    probability=st.sampled_from((0.0, 0.3, 1.0)),
    seed=st.integers(0, 20),
)
def test_every_graph_is_connected_without_loops_and_ascending_or_refused(
    agents: int, kind: str, degree: int, probability: float, seed: int
) -> None:
    try:
        topology = build(agents, kind=kind, degree=degree, probability=probability, seed=seed)
    except SettingsError:
        return
    pairs = edges(topology)
    assert len(topology.out_N) == len(topology.in_N) == agents
    assert pairs == {(i, j) for j, into in enumerate(topology.in_N) for i in into}
    assert all(i != j for i, j in pairs)
    assert all(list(out) == sorted(set(out)) for out in (*topology.out_N, *topology.in_N))
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(agents))
    assert nx.is_weakly_connected(graph)
    again = build(agents, kind=kind, degree=degree, probability=probability, seed=seed)
    assert again == topology


@pytest.mark.parametrize("agents", [1, 2, 3, 7])
def test_known_shapes(agents: int) -> None:
    assert edges(build(agents)) == {(i, j) for i in range(agents) for j in range(agents) if i != j}
    line = {(i, i + 1) for i in range(agents - 1)}
    assert edges(build(agents, kind="chain")) == line | {(j, i) for i, j in line}
    spokes = {(0, i) for i in range(1, agents)}
    assert edges(build(agents, kind="star")) == spokes | {(j, i) for i, j in spokes}
    if agents > 2:
        assert {len(out) for out in build(agents, kind="ring").out_N} == {2}


def test_edges_are_directed() -> None:
    topology = build(3, kind="edges", edges=((0, 1), (1, 2), (2, 0), (0, 1)))
    assert edges(topology) == {(0, 1), (1, 2), (2, 0)}
    assert topology.in_N == ((2,), (0,), (1,))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "edges", "edges": ((0, 1), (1, 2))}, "no agent can forward to agent 0"),
        ({"kind": "edges", "edges": ((0, 1), (1, 0), (2, 3), (3, 2))}, r"\[0, 1\] are cut off"),
        ({"kind": "edges", "edges": ((0, 4),)}, r"edge \(0, 4\) does not join"),
        ({"kind": "edges", "edges": ((1, 1),)}, r"edge \(1, 1\) does not join"),
        ({"kind": "k_regular", "degree": 4}, "k_regular"),
        ({"kind": "erdos_renyi", "probability": 0.0}, "raise degree or probability|give it an edge"),
    ],
)
def test_a_graph_that_cannot_work_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build(4, **settings)


def test_a_pool_needs_an_agent() -> None:
    with pytest.raises(SettingsError, match="at least one agent"):
        build(0)
