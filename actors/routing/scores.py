"""One function for each scoring equation. Axes: T task types, E directed edges, J one agent's out-neighbours.

An agent's decision is the slice of the whole graph's kernel that holds its own out-edges: the same function,
with its own row broadcast against its neighbours' columns.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def backpressure_scores(
    waiting_from: Floats | float,
    waiting_to: Floats,
    quality_from: Floats | float,
    quality_to: Floats,
    quality_weight: float,
) -> Floats:
    """S_ij^c = (Q_i^c - Q_j^c) + V (p_j^c - p_i^c)   (DEALS section 3.2; backpressure after Tassiulas and
    Ephremides 1992, the weight V as in Neely's drift-plus-penalty, 2010).

    The `from` arrays are (T, 1) and the `to` arrays (T, J) for one agent, or all are (T, E) for a graph;
    Q in tasks, p in [0, 1], V in tasks. Returns the broadcast shape.
    """
    scores = quality_to - quality_from
    scores *= quality_weight
    scores += waiting_from
    scores -= waiting_to
    return scores


def graph_scores(
    from_E: Ints, to_E: Ints, waiting_TN: Floats, quality_TN: Floats, quality_weight: float
) -> Floats:
    """Backpressure scores of every (type, edge): shape (T, E). N indexes agents."""
    scores_TE = np.empty((len(waiting_TN), len(from_E)))
    # One type at a time: the edges of one type fit into a cache, those of all do not.
    for scores_E, waiting_N, quality_N in zip(scores_TE, waiting_TN, quality_TN, strict=True):
        scores_E[:] = backpressure_scores(
            waiting_N.take(from_E),
            waiting_N.take(to_E),
            quality_N.take(from_E),
            quality_N.take(to_E),
            quality_weight,
        )
    return scores_TE


def best_columns(scores_TJ: Floats) -> tuple[Ints, Floats]:
    """Best column of each row and its score; ties go to the smallest index. Needs at least one column."""
    best_T = scores_TJ.argmax(axis=1)
    return best_T, scores_TJ[np.arange(len(best_T)), best_T]
