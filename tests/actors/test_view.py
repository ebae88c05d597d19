"""What is known of the neighbours."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actors.routing.view import NeighbourTable
from tests.actors.samples import agents, make_view


def table_of(*numbers: int) -> NeighbourTable:
    return NeighbourTable(agents(*numbers), 3, 0.5)


def test_unheard_neighbours_count_as_idle_and_of_prior_quality() -> None:
    table = table_of(5, 2)
    assert table.ids_J == (2, 5)
    assert table.waiting_TJ.tolist() == [[0, 0]] * 3
    assert table.quality_TJ.tolist() == [[0.5, 0.5]] * 3
    assert table.measured_at_s_J.tolist() == [-np.inf, -np.inf]


def test_a_view_fills_its_own_column() -> None:
    table = table_of(2, 5)
    view = make_view(5, waiting=(1, 2, 3), quality=(0.1, 0.2, 0.3), in_service=4, slots=7, age_s=2.0)
    assert table.merge(view, now_s=10.0)
    assert table.waiting_TJ[:, 1].tolist() == [1, 2, 3]
    assert table.quality_TJ[:, 1].tolist() == [0.1, 0.2, 0.3]
    assert (table.load_J[1], table.slots_J[1]) == (10, 7)
    assert table.measured_at_s_J.tolist() == [-np.inf, 8.0]
    assert table.waiting_TJ[:, 0].tolist() == [0, 0, 0]


def test_a_stranger_is_ignored() -> None:
    assert not table_of(2).merge(make_view(3, waiting=(9, 9, 9)), 0.0)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1))
def test_merging_never_goes_back(stamps: list[tuple[int, int]]) -> None:
    """Whatever the order of arrival, what stays is of the highest (epoch, version)."""
    table = table_of(1)
    for epoch, version in stamps:
        table.merge(make_view(1, epoch=epoch, version=version, waiting=(epoch, version, 0)), 0.0)
    assert tuple(table.waiting_TJ[:2, 0]) == max(stamps)


def test_a_restarted_neighbour_is_believed_though_its_versions_start_anew() -> None:
    table = table_of(1)
    table.merge(make_view(1, epoch=1, version=99, waiting=(9, 0, 0)), 0.0)
    assert table.merge(make_view(1, epoch=2, version=1, waiting=(1, 0, 0)), 0.0)
    assert not table.merge(make_view(1, epoch=1, version=100, waiting=(9, 0, 0)), 0.0)
    assert table.waiting_TJ[0, 0] == 1
