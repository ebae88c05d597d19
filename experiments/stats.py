"""Statistics of a report: proportions, quantiles, paired differences. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from actors.routing.scores import Floats, Ints

_Z_95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""
_DRAWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion:
    """So many of so many."""

    successes: int
    total: int

    @property
    def value(self) -> float | None:
        """None of nothing."""
        return self.successes / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % score interval (Wilson 1927): also sensible for few tasks and for 0 or all of them."""
        return wilson_interval(self.successes, self.total) if self.total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson_interval(successes: int, total: int) -> tuple[float, float]:
    """95 % interval of a proportion. Raises ValueError unless 0 <= successes <= total and total > 0."""
    if total < 1 or not 0 <= successes <= total:
        raise ValueError(f"{successes} of {total} is no proportion")
    share, z2 = successes / total, _Z_95**2
    centre = share + z2 / (2 * total)
    spread = _Z_95 * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    scale = 1 + z2 / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile (0..1) with linear interpolation; None of nothing."""
    return float(np.quantile(values, q)) if len(values) else None


def median(values: Sequence[float]) -> float | None:
    return quantile(values, 0.5)


def paired_difference(
    a_N: Sequence[float], b_N: Sequence[float], *, resamples: int = 10_000, seed: int = 1
) -> Estimate:
    """Mean of b - a over N pairs with its 95 % bootstrap percentile interval (Efron 1979).

    Pairs are drawn whole, so what both arms share (hard tasks are hard for both) does not widen the interval.
    Raises ValueError for no pairs or unequal lengths.
    """
    if len(a_N) != len(b_N) or not len(a_N):
        raise ValueError(f"{len(a_N)} and {len(b_N)} values are no pairs")
    difference_N = np.asarray(b_N, dtype=np.float64) - np.asarray(a_N, dtype=np.float64)
    rng = np.random.default_rng(seed)
    n = len(difference_N)
    rows = max(1, _DRAWS // n)  # at a time: all at once would not fit into memory for a long run
    drawn = (rng.integers(n, size=(min(rows, resamples - done), n)) for done in range(0, resamples, rows))
    means_R = np.concatenate([difference_N[picks_RN].mean(axis=1) for picks_RN in drawn])
    low, high = np.quantile(means_R, (0.025, 0.975))
    return Estimate(value=float(difference_N.mean()), low=float(low), high=float(high))


def mean_interval(values_S: Sequence[float]) -> Estimate:
    """Mean of S values (of seeds, say) with its 95 % interval by Student's t (1908), which also holds for a handful
    of them, where a bootstrap's percentiles are too narrow. Of one value it is unbounded. ValueError of nothing."""
    return _by_t(values_S, 1 / max(1, len(values_S)))


def repeat_interval(values_S: Sequence[float]) -> Estimate:
    """Mean of S repeats with the 95 % interval in which one more repeat falls (Student's t). ValueError of nothing."""
    return _by_t(values_S, 1 + 1 / max(1, len(values_S)))


def _by_t(values_S: Sequence[float], variances: float) -> Estimate:
    """`variances`: of what is estimated, in variances of one value."""
    seeds = len(values_S)
    if not seeds:
        raise ValueError("no values have no mean")
    from scipy.special import stdtrit  # takes a third of a second, and every command imports this file

    mean = float(np.mean(values_S))
    if seeds == 1:
        return Estimate(value=mean, low=-math.inf, high=math.inf)
    half_width = float(stdtrit(seeds - 1, 0.975)) * float(np.std(values_S, ddof=1)) * math.sqrt(variances)
    return Estimate(value=mean, low=mean - half_width, high=mean + half_width)


def effect_size(a_N: Sequence[float], b_N: Sequence[float]) -> float | None:
    """Cohen's d_z of N pairs: mean of b - a over its standard deviation (1988); None where all pairs differ alike.

    0.2 is called small, 0.8 large. ValueError for unequal lengths.
    """
    if len(a_N) != len(b_N):
        raise ValueError(f"{len(a_N)} and {len(b_N)} values are no pairs")
    difference_N = np.asarray(b_N, dtype=np.float64) - np.asarray(a_N, dtype=np.float64)
    spread = float(difference_N.std(ddof=1)) if len(difference_N) > 1 else 0.0
    return float(difference_N.mean()) / spread if spread > 0 else None


def frontier_gain(
    ours_KS2: Floats, theirs_S2: Floats, *, resamples: int = 2000, seed: int = 1
) -> Estimate | None:
    """How far one frontier lies above a point, at the point's own cost, with a 95 % interval over seeds.

    `ours_KS2` holds K >= 2 settings of an arm that trades cost against value (K points of a frontier) over S seeds,
    `theirs_S2` the other arm over the same seeds; the last axis is (cost, value). The frontier is linear between
    the mean points of neighbouring settings. None where the point's cost lies beyond its ends; resamples that fall
    there go on along its last piece. Seeds are resampled whole.
    """
    rng = np.random.default_rng(seed)
    seeds = theirs_S2.shape[0]

    def gain(picks_S: Ints) -> tuple[float, bool]:
        points_K2 = ours_KS2[:, picks_S].mean(axis=1)
        points_K2 = points_K2[points_K2[:, 0].argsort()]
        cost, value = theirs_S2[picks_S].mean(axis=0)
        k = int(np.clip(np.searchsorted(points_K2[:, 0], cost), 1, len(points_K2) - 1))
        (from_cost, below), (to_cost, above) = points_K2[k - 1], points_K2[k]
        width = to_cost - from_cost
        ours = below + (above - below) * (cost - from_cost) / width if width > 0 else max(below, above)
        return float(ours - value), bool(points_K2[0, 0] <= cost <= points_K2[-1, 0])

    found, within = gain(np.arange(seeds))
    if not within:
        return None
    drawn_R = [gain(rng.integers(seeds, size=(seeds,)))[0] for _ in range(resamples)]
    low, high = np.quantile(drawn_R, (0.025, 0.975))
    return Estimate(value=found, low=float(low), high=float(high))
