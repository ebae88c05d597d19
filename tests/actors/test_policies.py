"""What each policy chooses."""

import numpy as np

from actors.routing.policies import POLICIES, Choice, Situation, deals
from actors.routing.view import NeighbourTable
from actors.task import AgentId
from tests.actors.samples import agents, make_view

RNG = np.random.default_rng(1)


def choose(
    waiting: float, of_others: list[int], *, excluded: tuple[int, ...] = (), margin: float = 1.0
) -> Choice:
    """The choice at V = 0 for a task of the only type; neighbour n + 1 has `of_others[n]` waiting."""
    table = NeighbourTable(agents(*range(1, len(of_others) + 1)), 1, 0.5)
    for number, tasks in enumerate(of_others, start=1):
        table.merge(make_view(number, waiting=(tasks,), quality=(0.5,)), 0.0)
    situation = Situation(
        type_index=0,
        waiting=waiting,
        quality=0.5,
        neighbours=table,
        excluded=frozenset(AgentId(n) for n in excluded),
        quality_weight=0.0,
        margin=margin,
        now_s=0.0,
    )
    return deals(situation, RNG)


def test_a_score_at_the_margin_is_not_above_it() -> None:
    assert choose(2, [1]).column is None
    assert choose(3, [1]).column == 0
    assert choose(2, [1], margin=0.5).column == 0


def test_the_best_neighbour_wins_and_ties_go_to_the_smallest_index() -> None:
    assert choose(9, [4, 2, 3]).column == 1
    assert choose(9, [4, 2, 2]).column == 1


def test_excluded_neighbours_are_never_chosen() -> None:
    choice = choose(9, [0, 1, 2], excluded=(1,))
    assert choice.column == 1
    assert choice.scores_J.tolist() == [-np.inf, 8.0, 7.0]
    assert choose(9, [0, 0], excluded=(1, 2)).column is None
    assert choose(9, [0], excluded=(7,)).column == 0, "an agent that is no neighbour excludes nobody"


def test_without_neighbours_a_task_stays() -> None:
    assert choose(9, []).column is None


def test_the_papers_policy_is_registered() -> None:
    assert POLICIES["deals"] is deals
