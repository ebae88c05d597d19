"""Success estimates."""

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
