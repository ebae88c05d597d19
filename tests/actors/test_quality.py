"""Success estimates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.config import QualitySettings
from actors.routing.quality import Counts, SuccessEstimates


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans())))
def test_estimates_follow_laplaces_rule(verdicts: list[tuple[int, bool]]) -> None:
    estimates = SuccessEstimates(3, QualitySettings())
    for c, success in verdicts:
        estimates.credit(c, success=success)
    for c in range(3):
        wins = sum(success for of, success in verdicts if of == c)
        losses = sum(not success for of, success in verdicts if of == c)
        assert estimates.quality_T[c] == pytest.approx((wins + 1) / (wins + losses + 2))
        assert estimates.counts().successes_T[c] == wins
        assert estimates.counts().failures_T[c] == losses


def test_an_untried_type_has_the_priors_mean() -> None:
    settings = QualitySettings(prior_successes=3, prior_failures=1)
    assert SuccessEstimates(2, settings).quality_T.tolist() == [0.75, 0.75]


def test_counts_survive_a_restore() -> None:
    estimates = SuccessEstimates(2, QualitySettings())
    estimates.restore(Counts(successes_T=(3, 0), failures_T=(1, 4)))
    assert estimates.counts() == Counts(successes_T=(3, 0), failures_T=(1, 4))
    assert estimates.quality_T.tolist() == [4 / 6, 1 / 6]


def test_counts_of_another_plan_are_refused() -> None:
    with pytest.raises(ValueError, match="3 task types do not fit 2"):
        SuccessEstimates(2, QualitySettings()).restore(Counts(successes_T=(1, 2, 3), failures_T=(1, 2, 3)))


def pooled(pairs: list[tuple[int, int]]) -> list[float]:
    """Estimates of (right, wrong) counts of one agent's types."""
    estimates = SuccessEstimates(len(pairs), QualitySettings(pooling="own_types"))
    rights, wrongs = zip(*pairs, strict=True)
    estimates.restore(Counts(successes_T=rights, failures_T=wrongs))
    return [float(value) for value in estimates.quality_T]


def test_alike_types_lean_on_each_other_and_unlike_ones_do_not() -> None:
    """16 of 17 by luck among types that hardly differ is believed less than among a specialist's."""
    alike = pooled([(8, 9), (9, 8), (7, 10), (8, 9), (12, 5)])
    assert alike[4] < 12 / 17 - 0.1
    specialist = pooled([(0, 17), (1, 16), (16, 1), (0, 17), (17, 0)])
    assert specialist[2] > 0.85
    assert specialist[0] < 0.08


def test_pooling_beats_single_counts_where_types_differ_little() -> None:
    """Mean squared error over many agents whose true rates vary by 0.05 between types, 15 verdicts each."""
    rng = np.random.default_rng(1)
    errors = {"pooled": 0.0, "single": 0.0}
    for _ in range(300):
        true_T = np.clip(rng.normal(0.45, 0.05, 14), 0.05, 0.95)
        right_T = rng.binomial(15, true_T)
        errors["pooled"] += float(
            ((np.array(pooled([(int(r), 15 - int(r)) for r in right_T])) - true_T) ** 2).mean()
        )
        errors["single"] += float((((right_T + 1) / 17 - true_T) ** 2).mean())
    assert errors["pooled"] < 0.5 * errors["single"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6))
def test_pooled_estimates_are_probabilities(pairs: list[tuple[int, int]]) -> None:
    assert all(0 < value < 1 for value in pooled(pairs))


def test_old_verdicts_fade_with_a_discount() -> None:
    estimates = SuccessEstimates(1, QualitySettings(discount=0.9))
    for success in [False] * 50 + [True] * 20:
        estimates.credit(0, success=success)
    assert estimates.quality_T[0] > 0.75
    assert estimates.counts().failures_T == (50,), "counts stay whole"
    plain = SuccessEstimates(1, QualitySettings())
    for success in [False] * 50 + [True] * 20:
        plain.credit(0, success=success)
    assert plain.quality_T[0] < 0.31
