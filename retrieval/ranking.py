"""The order in which trajectories are shown: cosine, raised for those that were quick. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingSettings:
    """How recalled trajectories are scored and cut. The defaults are the DEALS paper's (appendix A)."""

    limit: int = 3
    """Most trajectories returned; 0 switches demonstrations off."""
    minimum_score: float = 0.7
    """Compared with the score after the time factor."""
    time_weight: float = 0.2
    time_scale_s: float = 60.0
    """Execution time at which half of the time weight is left."""

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError(f"ranking limit is {self.limit}; give 0 or more")
        if not np.isfinite([self.minimum_score, self.time_weight, self.time_scale_s]).all():
            raise ValueError(f"ranking settings must be finite numbers: {self}")
        if self.time_weight < 0:
            raise ValueError(f"ranking time_weight is {self.time_weight}; give 0 or more")
        if self.time_scale_s <= 0:
            raise ValueError(f"ranking time_scale_s is {self.time_scale_s}; give more than 0")


def time_weighted_scores(
    cosines_M: NDArray[np.float64], durations_s_M: NDArray[np.float64], settings: RankingSettings
) -> NDArray[np.float64]:
    """cos * (1 + w / (1 + t / s)) for M trajectories, t their execution time in seconds.

    Shapes (M,) and (M,) to (M,). Source: DEALS appendix A (cosine combined with a time factor weighted 0.2),
    in the form of AgentNet (arXiv 2504.00587), w = 0.2, s = 60.
    """
    return cosines_M * (1.0 + settings.time_weight / (1.0 + durations_s_M / settings.time_scale_s))


def best_first(
    scores_M: NDArray[np.float64], ids_M: NDArray[np.int64], settings: RankingSettings
) -> NDArray[np.intp]:
    """Positions of those that qualify, best first, at most `limit`; ties go to the smaller (older) id.

    Shapes (M,) and (M,) to (K,), K <= limit. Source: DEALS appendix A (up to 3 with a score of at least 0.7,
    all that qualify if fewer).
    """
    order_M: NDArray[np.intp] = np.lexsort((ids_M, -scores_M))
    qualifies_M = scores_M[order_M] >= settings.minimum_score
    return order_M[qualifies_M][: settings.limit]
