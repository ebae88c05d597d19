"""What each policy chooses."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.routing.policies import POLICIES, Choice, deals
from actors.routing.scores import drain_time_scores
from tests.actors.samples import make_situation

RNG = np.random.default_rng(1)


def choose(policy: str, waiting: float, of_others: list[float], **changes: object) -> Choice:
    return POLICIES[policy](make_situation(waiting, of_others, **changes), RNG)


def test_a_score_at_the_margin_is_not_above_it() -> None:
    assert choose("deals", 2, [1]).column is None
    assert choose("deals", 3, [1]).column == 0
    assert choose("deals", 2, [1], margin=0.5).column == 0


def test_the_best_neighbour_wins_and_ties_go_to_the_smallest_index() -> None:
    assert choose("deals", 9, [4, 2, 3]).column == 1
    assert choose("deals", 9, [4, 2, 2]).column == 1


def test_a_margin_of_its_own_can_cost_a_neighbour_the_task() -> None:
    """An old view is trusted less: 9 - 2 = 7 is not above its margin of 8, 9 - 4 is above 1."""
    choice = choose("deals", 9, [4, 2], margin=np.array([1.0, 8.0]))
    assert choice.column == 0
    assert choice.scores_J.tolist() == [5.0, 7.0]
    assert choose("deals", 9, [4, 2], margin=np.array([5.0, 7.0])).column is None


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(
    of_others=st.lists(st.integers(0, 30).map(float), max_size=6),
    waiting=st.integers(1, 30).map(float),
    closed=st.sets(st.integers(0, 5)),
    hops=st.integers(0, 3),
    turn=st.integers(0, 20),
)
def test_every_policy_chooses_an_open_neighbour_or_none(
    policy: str, of_others: list[float], waiting: float, closed: set[int], hops: int, turn: int
) -> None:
    shut = sorted(column for column in closed if column < len(of_others))
    choice = choose(policy, waiting, of_others, closed=shut, hops=hops, turn=turn)
    assert len(choice.scores_J) == len(of_others)
    if choice.column is not None:
        assert 0 <= choice.column < len(of_others)
        assert choice.column not in shut
    assert all(choice.scores_J[column] == -np.inf for column in shut)


@pytest.mark.parametrize("policy", ["random", "round_robin", "join_shortest", "power_of_two", "keep"])
def test_a_task_is_placed_once(policy: str) -> None:
    assert all(choose(policy, 30, [0, 0], hops=1, turn=turn).column is None for turn in range(20))


def test_drain_time_prices_all_that_an_agent_has() -> None:
    """Few tasks of this type wait at the neighbour, but many of others do."""
    busy = {"load_J": np.array([40.0]), "slots_J": np.array([4.0]), "load": 8.0, "slots": 4}
    assert choose("deals", 8, [0]).column == 0
    assert choose("drain_time", 8, [0], **busy).column is None
    assert choose("drain_time", 8, [0], **busy, quality_J=np.array([0.9]), quality_weight=30.0).column == 0


def test_drain_time_counts_in_mean_step_times() -> None:
    """2 loads a slot here at 3 s each, 4 there at 1 s each, mean 2 s: (6 - 4) / 2."""
    scores_J = drain_time_scores(2.0, np.array([4.0]), 3.0, np.array([1.0]), np.zeros(1))
    assert scores_J.tolist() == [1.0]
    unknown_J = drain_time_scores(2.0, np.array([4.0, 1.0]), 0.0, np.zeros(2), np.zeros(2))
    assert unknown_J.tolist() == [-2.0, 1.0], "without any step time, all count alike"
    assert drain_time_scores(2.0, np.array([2.0]), 5.0, np.zeros(1), np.zeros(1)).tolist() == [0.0]


def test_best_quality_ignores_backlogs() -> None:
    quality_J = np.array([0.6, 0.8])
    assert choose("best_quality", 1, [0, 99], quality_J=quality_J).column == 1
    assert choose("best_quality", 99, [0, 0], quality=0.8, quality_J=quality_J).column is None


def test_join_shortest_goes_to_the_least_load_and_stays_on_a_tie() -> None:
    assert choose("join_shortest", 4, [3, 2, 2]).column == 1
    assert choose("join_shortest", 3, [2, 2]).column is None, "the task itself is no reason to leave"


def test_power_of_two_prefers_the_less_loaded_of_each_pair() -> None:
    """Three agents, loads 10 (here) < 20 < 30: the pairs are equally likely, so here 2/3, the next 1/3."""
    seen = Counter(choose("power_of_two", 11, [20, 30]).column for _ in range(3000))
    assert seen[1] == 0
    assert seen[None] == pytest.approx(2000, abs=120)
    assert seen[0] == pytest.approx(1000, abs=120)


def test_random_is_even_over_all_agents() -> None:
    seen = Counter(choose("random", 1, [0, 0, 0], closed=(1,)).column for _ in range(3000))
    assert set(seen) == {None, 0, 2}
    assert all(count == pytest.approx(1000, abs=120) for count in seen.values())


def test_round_robin_takes_turns() -> None:
    columns = [choose("round_robin", 1, [0, 0], turn=turn).column for turn in range(6)]
    assert columns == [0, 1, None, 0, 1, None]


def test_without_neighbours_a_task_stays() -> None:
    assert all(choose(policy, 9, []).column is None for policy in POLICIES)


def test_the_papers_policy_is_registered() -> None:
    assert POLICIES["deals"] is deals
