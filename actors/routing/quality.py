"""Success estimates by task type, from credited verdicts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from actors.config import QualitySettings
from actors.routing.scores import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Credited successes and failures by task type; axis T follows the plan's task types."""

    successes_T: tuple[int, ...]
    failures_T: tuple[int, ...]


class SuccessEstimates:
    """p^c = (s + a) / (s + f + a + b): Laplace's rule at a = b = 1 (the paper counts successes and failures,
    section 3.2; the prior is our decision). With a discount g < 1 each new verdict of a type multiplies the
    weight of its earlier ones by g."""

    def __init__(self, types: int, settings: QualitySettings) -> None:
        self._settings = settings
        self._successes_T = np.zeros(types, dtype=np.int64)
        self._failures_T = np.zeros(types, dtype=np.int64)
        self._right_T: Floats = np.zeros(types)
        self.tries_T: Floats = np.zeros(types)
        """Verdicts behind each estimate, discounted."""
        self.quality_T: Floats = np.empty(types)
        """Estimates, shape (T,); changed in place."""
        self.changes = 0
        """How often they have changed: a cheap answer to whether there is anything new to tell."""
        self._estimate()

    def credit(self, type_index: int, *, success: bool) -> None:
        """Counts one verdict."""
        (self._successes_T if success else self._failures_T)[type_index] += 1
        discount = self._settings.discount
        self._right_T[type_index] = self._right_T[type_index] * discount + success
        self.tries_T[type_index] = self.tries_T[type_index] * discount + 1
        self._estimate()

    def counts(self) -> Counts:
        return Counts(
            successes_T=tuple(int(n) for n in self._successes_T),
            failures_T=tuple(int(n) for n in self._failures_T),
        )

    def restore(self, successes_T: Sequence[int], failures_T: Sequence[int]) -> None:
        """Takes counts from an earlier run; axis T as here, or ValueError."""
        if len(successes_T) != len(self._successes_T) or len(failures_T) != len(self._failures_T):
            raise ValueError(f"counts for {len(successes_T)} task types do not fit {len(self._successes_T)}")
        self._successes_T[:] = successes_T
        self._failures_T[:] = failures_T
        self._right_T[:] = self._successes_T
        self.tries_T[:] = self._successes_T + self._failures_T
        self._estimate()

    def _estimate(self) -> None:
        self.changes += 1
        prior = self._settings
        if prior.pooling == "own_types" and self.tries_T.sum() > 0:
            pooled_estimates(self._right_T, self.tries_T, self.quality_T)
            return
        self.quality_T[:] = (self._right_T + prior.prior_successes) / (
            self.tries_T + prior.prior_successes + prior.prior_failures
        )


LEAST_POOLED = 2.0
"""Least weight, in verdicts, of an agent's mean in the estimate of one type."""
MOST_POOLED = 3.0
"""Most weight, in mean verdicts of a type: few verdicts cannot show that types are alike."""


def pooled_estimates(right_T: Floats, tries_T: Floats, out_T: Floats) -> None:
    """p_c = (s_c + k m) / (n_c + k): a beta-binomial with its two parameters taken from the same agent's verdicts.

    m is the agent's success rate over all types (with Laplace's prior), k = m (1 - m) / v with v the variance of
    its rates between types beyond what chance explains (method of moments, Kleinman 1973). Types that differ
    little lean on each other; those of a specialist hardly. Shapes (T,); writes into `out_T`.
    """
    total = float(tries_T.sum())
    mean = (float(right_T.sum()) + 1) / (total + 2)
    tried = tries_T > 0
    rates = right_T[tried] / tries_T[tried]
    chance = mean * (1 - mean) * (int(tried.sum()) - 1) / total
    between = float((tries_T[tried] * (rates - mean) ** 2).sum()) / total - chance
    weight = max(LEAST_POOLED, MOST_POOLED * total / int(tried.sum()))
    if between > 0:
        weight = min(weight, max(LEAST_POOLED, mean * (1 - mean) / between))
    out_T[:] = (right_T + weight * mean) / (tries_T + weight)
