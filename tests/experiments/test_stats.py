import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from experiments.stats import (
    Estimate,
    Proportion,
    effect_size,
    frontier_gain,
    mean_interval,
    median,
    paired_difference,
    quantile,
    repeat_interval,
    wilson_interval,
)


def test_wilson_interval_agrees_with_published_values() -> None:
    # Newcombe 1998, table I, method 3 (score without continuity correction).
    for successes, total, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
    ):
        assert wilson_interval(successes, total) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_holds_the_share_and_stays_in_the_unit_interval(pair: tuple[int, int]) -> None:
    successes, total = pair
    low, high = wilson_interval(successes, total)
    assert 0 <= low <= successes / total + 1e-12
    assert successes / total - 1e-12 <= high <= 1
    mirrored = wilson_interval(total - successes, total)
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_a_proportion_of_nothing_has_no_value() -> None:
    assert Proportion(successes=0, total=0).value is None
    assert Proportion(successes=0, total=0).interval is None
    with pytest.raises(ValueError, match="3 of 2"):
        wilson_interval(3, 2)


def test_quantiles_interpolate() -> None:
    assert median([4.0, 1.0, 3.0]) == 3.0
    assert quantile([0.0, 10.0], 0.95) == pytest.approx(9.5)
    assert median([]) is None


def test_the_paired_difference_ignores_what_both_arms_share() -> None:
    # Hard and easy tasks for both; b is right on 10 more of 100.
    a = [0.0] * 50 + [1.0] * 50
    b = [0.0] * 40 + [1.0] * 60
    paired = paired_difference(a, b)
    assert paired.value == pytest.approx(0.1)
    # Of the difference alone: standard error sqrt(.1 * .9 / 100) = 0.03.
    assert paired.low == pytest.approx(0.1 - 1.96 * 0.03, abs=0.015)
    assert paired.high == pytest.approx(0.1 + 1.96 * 0.03, abs=0.015)
    unpaired_half_width = 1.96 * math.sqrt(2 * 0.25 / 100)
    assert paired.high - paired.low < unpaired_half_width


def test_the_paired_difference_of_equal_arms_is_exactly_nothing() -> None:
    same = paired_difference([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (same.value, same.low, same.high) == (0, 0, 0)
    with pytest.raises(ValueError, match="no pairs"):
        paired_difference([1.0], [])


def test_effect_size_is_the_paired_t_over_root_n() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, 40), rng.normal(0.4, 1, 40)
    expected = scipy.stats.ttest_rel(b, a).statistic / math.sqrt(40)
    assert effect_size(a.tolist(), b.tolist()) == pytest.approx(expected)
    assert effect_size([1.0, 2.0], [2.0, 3.0]) is None, "no spread"
    with pytest.raises(ValueError, match="1 and 2"):
        effect_size([1.0], [1.0, 2.0])


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30).filter(lambda values: np.std(values) > 1e-3))
def test_the_mean_interval_is_scipys_of_students_t(values: list[float]) -> None:
    found = mean_interval(values)
    theirs = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.value == pytest.approx(np.mean(values))
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seeds", [5, 12])
def test_intervals_hold_what_they_say_of_a_few_seeds(seeds: int) -> None:
    draws = np.random.default_rng(seeds).normal(3, 2, (4000, seeds + 1))
    means = [mean_interval(values) for values in draws[:, :-1].tolist()]
    assert 0.93 <= np.mean([each.low <= 3 <= each.high for each in means]) <= 0.97
    repeats = [repeat_interval(values) for values in draws[:, :-1].tolist()]
    held = [each.low <= next_ <= each.high for each, next_ in zip(repeats, draws[:, -1], strict=True)]
    assert 0.93 <= np.mean(held) <= 0.97


def test_of_one_value_nothing_is_known_of_the_others() -> None:
    found = mean_interval([4.0])
    assert (found.value, found.low, found.high) == (4.0, -math.inf, math.inf)
    assert mean_interval([0.5] * 5) == Estimate(value=0.5, low=0.5, high=0.5)
    for interval in (mean_interval, repeat_interval):
        with pytest.raises(ValueError, match="no mean"):
            interval([])


def test_a_frontier_is_compared_at_the_others_cost() -> None:
    """Ours goes from (0.4, 10) to (0.6, 30); at a cost of 0.5 it is worth 20, theirs 17."""
    ours = np.array([[[0.6, 30.0]] * 5, [[0.4, 10.0]] * 5])
    theirs = np.array([[0.5, 17.0]] * 5)
    found = frontier_gain(ours, theirs)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0))


def test_a_frontier_says_nothing_beyond_its_ends() -> None:
    ours = np.array([[[0.4, 10.0]], [[0.5, 30.0]], [[0.6, 31.0]]])
    for cost in (0.1, 0.39, 0.61, 0.9):
        assert frontier_gain(ours, np.array([[cost, 25.0]])) is None
    for cost, value in ((0.4, 10.0), (0.45, 20.0), (0.55, 30.5), (0.6, 31.0)):
        found = frontier_gain(ours, np.array([[cost, 0.0]]))
        assert found is not None
        assert found.value == pytest.approx(value)


def test_seeds_that_share_their_luck_do_not_widen_a_frontiers_interval() -> None:
    rng = np.random.default_rng(3)
    luck = rng.normal(0, 5, 50)
    ours = np.stack(
        [np.stack([np.full(50, cost), value + luck], axis=1) for cost, value in ((0.4, 10), (0.6, 30))]
    )
    theirs = np.stack([np.full(50, 0.5), 17 + luck], axis=1)
    found = frontier_gain(ours, theirs)
    assert found is not None
    assert found.high - found.low < 1e-9
