"""The equations against hand computation, and one agent's decision against the whole graph's kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.routing.policies import deals
from actors.routing.scores import backpressure_scores, best_columns, graph_scores
from tests.actors.samples import make_situation


def scalar_score(q_i: float, q_j: float, p_i: float, p_j: float, weight: float) -> float:
    """S_ij = (Q_i - Q_j) + V (p_j - p_i), by hand."""
    return (q_i - q_j) + weight * (p_j - p_i)


def test_score_of_a_worked_example() -> None:
    """Three tasks here, one there; 0.5 against 0.75 at V = 20: 2 + 5."""
    assert backpressure_scores(3.0, np.array([1.0]), 0.5, np.array([0.75]), 20.0).tolist() == [7.0]


@given(
    types=st.integers(1, 5),
    neighbours=st.integers(1, 6),
    weight=st.sampled_from((0.0, 1.0, 20.0, 80.0)),
    seed=st.integers(0, 999),
)
def test_scores_equal_a_scalar_hand_computation(
    types: int, neighbours: int, weight: float, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    from_T1, to_TJ = (
        chance.integers(0, 30, (types, 1)).astype(float),
        chance.integers(0, 30, (types, neighbours)),
    )
    p_T1, p_TJ = chance.random((types, 1)), chance.random((types, neighbours))
    scores_TJ = backpressure_scores(from_T1, to_TJ.astype(float), p_T1, p_TJ, weight)
    for c in range(types):
        for j in range(neighbours):
            by_hand = scalar_score(from_T1[c, 0], to_TJ[c, j], p_T1[c, 0], p_TJ[c, j], weight)
            assert scores_TJ[c, j] == pytest.approx(by_hand, abs=1e-12)


@given(size=st.integers(2, 8), types=st.integers(1, 4), seed=st.integers(0, 999))
def test_one_agents_scores_are_its_slice_of_the_graphs(size: int, types: int, seed: int) -> None:
    """Bit for bit: (types x edges) for the graph, (types x neighbours) for the agent, (neighbours) for the
    decision on one task."""
    chance = np.random.default_rng(seed)
    edges = [(i, j) for i in range(size) for j in range(size) if i != j and chance.random() < 0.6]
    if not edges:
        return
    from_E, to_E = (np.array(ends) for ends in zip(*edges, strict=True))
    waiting_TN = chance.integers(0, 9, (types, size)).astype(float)
    quality_TN = chance.random((types, size))
    graph_TE = graph_scores(from_E, to_E, waiting_TN, quality_TN, 20.0)
    assert graph_TE.shape == (types, len(edges))
    for i in range(size):
        out = [j for a, j in edges if a == i]
        mine_TJ = backpressure_scores(
            waiting_TN[:, [i]], waiting_TN[:, out], quality_TN[:, [i]], quality_TN[:, out], 20.0
        )
        np.testing.assert_array_equal(graph_TE[:, from_E == i], mine_TJ)
        for c in range(types):
            choice = deals(
                make_situation(
                    waiting_TN[c, i],
                    waiting_TN[c, out].tolist(),
                    quality=quality_TN[c, i],
                    quality_J=quality_TN[c, out],
                    quality_weight=20.0,
                ),
                chance,
            )
            np.testing.assert_array_equal(choice.scores_J, mine_TJ[c])
            if out:
                best = max(range(len(out)), key=lambda j: (mine_TJ[c, j], -j))
                assert choice.column == (best if mine_TJ[c, best] > 1.0 else None)


def test_best_columns_prefer_the_smallest_index() -> None:
    best_T, scores_T = best_columns(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -2.0, -0.5]]))
    assert best_T.tolist() == [1, 0, 2]
    assert scores_T.tolist() == [3.0, 2.0, -0.5]


def test_scoring_leaves_its_arguments_alone() -> None:
    waiting_J, quality_J = np.array([1.0, 2.0]), np.array([0.5, 0.6])
    backpressure_scores(3.0, waiting_J, 0.5, quality_J, 20.0)
    assert waiting_J.tolist() == [1.0, 2.0]
    assert quality_J.tolist() == [0.5, 0.6]
