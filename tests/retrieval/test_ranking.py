"""The paper's score on values computed by hand, and the cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ranking import RankingSettings, best_first, time_weighted_scores


@pytest.mark.parametrize(
    ("cosine", "duration_s", "score"),
    [
        (1.0, 0.0, 1.2),  # 1 * (1 + 0.2/1)
        (0.5, 60.0, 0.55),  # 0.5 * (1 + 0.2/2)
        (0.8, 180.0, 0.84),  # 0.8 * (1 + 0.2/4)
        (0.7, 540.0, 0.714),  # 0.7 * (1 + 0.2/10)
        (-0.5, 0.0, -0.6),
        (0.0, 5.0, 0.0),
    ],
)
def test_score_of_the_paper(cosine: float, duration_s: float, score: float) -> None:
    scores_M = time_weighted_scores(np.array([cosine]), np.array([duration_s]), RankingSettings())
    assert scores_M.tolist() == pytest.approx([score])


def test_weight_and_scale_are_settings() -> None:
    ranking = RankingSettings(time_weight=0.5, time_scale_s=10.0)
    assert time_weighted_scores(np.array([0.6]), np.array([40.0]), ranking).tolist() == pytest.approx([0.66])


@given(
    cosine=st.floats(0.01, 1),
    faster_s=st.floats(0, 1e4),
    by_s=st.floats(1, 1e4),
)
def test_of_equal_cosines_the_faster_scores_higher_and_never_over_a_fifth_more(
    cosine: float, faster_s: float, by_s: float
) -> None:
    durations_s_M = np.array([faster_s, faster_s + by_s])
    fast, slow = time_weighted_scores(np.array([cosine, cosine]), durations_s_M, RankingSettings()).tolist()
    assert cosine < slow < fast <= cosine * 1.2 + 1e-12


def test_cut_at_minimum_and_limit_with_ties_to_the_older() -> None:
    scores_M = np.array([0.9, 0.7, 0.95, 0.9, 0.6999])
    ids_M = np.array([8, 1, 5, 2, 0], dtype=np.int64)
    assert best_first(scores_M, ids_M, RankingSettings()).tolist() == [2, 3, 0]
    assert best_first(scores_M, ids_M, RankingSettings(limit=10)).tolist() == [2, 3, 0, 1]
    assert best_first(scores_M, ids_M, RankingSettings(limit=0)).tolist() == []


@given(
    scores=st.lists(st.floats(-1.2, 1.2), max_size=12),
    limit=st.integers(0, 5),
    minimum=st.floats(-1, 1),
)
def test_cut_agrees_with_a_sorted_list(scores: list[float], limit: int, minimum: float) -> None:
    ids = list(range(len(scores), 0, -1))
    expected = sorted(
        (position for position, score in enumerate(scores) if score >= minimum),
        key=lambda position: (-scores[position], ids[position]),
    )[:limit]
    ranking = RankingSettings(limit=limit, minimum_score=minimum)
    found = best_first(np.array(scores, dtype=np.float64), np.array(ids, dtype=np.int64), ranking)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limit": -1}, "limit"),
        ({"time_weight": -0.1}, "time_weight"),
        ({"time_scale_s": 0.0}, "time_scale_s"),
        ({"minimum_score": float("nan")}, "finite"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankingSettings(**changes)  # type: ignore[arg-type]
