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


def drain_time_scores(
    drain: float, drain_J: Floats, service_s: float, service_s_J: Floats, gain_J: Floats
) -> Floats:
    """S_ij = (W_i - W_j) / tau + gain_j with W the time to drain all that an agent has.

    `drain` is (waiting + in service) / slots, so W = drain * mean step time; tau is the mean step time over the
    agent and its neighbours, and stands in where an agent's own is not known yet (0). `gain_j` is V (p_j - p_i).
    Slots are shared by all types, so the whole backlog is what a task would wait for: quality per service cycle
    rather than per queue (see arXiv 2605.14241). Shape (J,), in mean step times.
    """
    known_J = service_s_J > 0
    known = int(known_J.sum()) + (service_s > 0)
    tau_s = (float(service_s_J.sum()) + service_s) / known if known else 1.0
    relative_J = np.where(known_J, service_s_J, tau_s) / tau_s
    relative = service_s / tau_s if service_s > 0 else 1.0
    return relative * drain - relative_J * drain_J + gain_J


def posterior_spread(quality: Floats | float, tries: Floats | float) -> Floats:
    """Standard deviation of a Beta posterior with mean `quality` after `tries` verdicts and a prior of weight 2;
    broadcast shape."""
    mean, weight = np.asarray(quality, dtype=np.float64), np.asarray(tries, dtype=np.float64)
    spread: Floats = np.sqrt(mean * (1 - mean) / (weight + 3))
    return spread


def pull_scores(
    waiting_TJ: Floats,
    drain_J: Floats,
    drain: float,
    quality_T: Floats,
    quality_TJ: Floats,
    quality_weight: float,
) -> Floats:
    """What a waiting task of type c at neighbour j would gain by coming here: W_j - W_i + V (p_i - p_j), W in
    loads over slots; minus infinity where none waits. Shape (T, J)."""
    scores_TJ = quality_weight * (quality_T[:, np.newaxis] - quality_TJ) + (drain_J - drain)
    scores_TJ[waiting_TJ <= 0] = -np.inf
    return scores_TJ
