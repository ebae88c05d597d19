"""The linear programme against brute force, known cases, and figures from outside."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.datasets.registry import load
from experiments.deals.bound import best_accuracy, bound_curve, oracle_accuracy
from experiments.verdicts import FILE, recorded_verdicts

rates = st.lists(
    st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=2, max_size=2), min_size=2, max_size=3
)


@given(rates)
def test_no_split_of_types_in_tenths_is_better(rows: list[list[float]]) -> None:
    """Brute force over all shares in tenths that keep to the cap: none beats the programme, and the best of them
    is near it."""
    rates_AT = np.array(rows)
    agents, types = rates_AT.shape
    shares_T, cap = np.array([0.5, 0.5]), 0.6
    tenths = [t for t in itertools.product(range(11), repeat=agents) if sum(t) == 10]
    best = 0.0
    for split in itertools.product(tenths, repeat=types):
        x_AT = np.array(split).T / 10
        if ((x_AT * shares_T).sum(axis=1) <= cap + 1e-9).all():
            best = max(best, float((x_AT * shares_T * rates_AT).sum()))
    bound = best_accuracy(rates_AT, shares_T, cap)
    assert best <= bound + 1e-9
    assert bound - best < 0.05


def test_without_a_cap_each_type_goes_to_its_best_agent() -> None:
    rates_AT, shares_T = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.25, 0.75])
    assert best_accuracy(rates_AT, shares_T, 1.0) == pytest.approx(0.25 * 0.9 + 0.75 * 0.8)
    assert oracle_accuracy(rates_AT, shares_T) == pytest.approx(0.825)


def test_an_even_share_of_one_type_is_the_mean() -> None:
    assert best_accuracy(np.array([[0.9], [0.3]]), np.ones(1), 0.5) == pytest.approx(0.6)


def test_a_cap_below_an_even_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 agents with at most 0\.300"):
        best_accuracy(np.full((3, 1), 0.5), np.ones(1), 0.3)


@given(rates)
def test_more_room_is_never_worse(rows: list[list[float]]) -> None:
    curve = bound_curve(np.array(rows), np.array([0.3, 0.7]), [0.5, 0.6, 0.8, 1.0])
    assert (np.diff(curve) >= -1e-9).all()


@given(st.lists(st.floats(0, 1), min_size=2, max_size=7), st.integers(0, 2**32))
def test_no_cap_is_never_below_a_cap_not_even_by_a_rounding(rates_T: list[float], seed: int) -> None:
    """Agents that are alike reach the same at any cap: there the solver's last digits show."""
    rates_AT = np.tile(rates_T, (3, 1))
    shares_T = np.random.default_rng(seed).dirichlet(np.ones(len(rates_T)))
    assert best_accuracy(rates_AT, shares_T, 1 / 3) <= oracle_accuracy(rates_AT, shares_T)


def test_the_published_curve_of_three_models_is_recovered() -> None:
    """Three 7-8B models on MMLU-Pro: 43.5, 43.9, 44.6 and 45.8 % at heaviest shares of .33, .36, .40 and .50."""
    folder = Path(os.environ.get("TRADEWINDS_DATA_DIR", "../shared/data"))
    if not (folder / FILE).is_file():
        pytest.skip(f"recorded MMLU-Pro verdicts are not at {folder}; set TRADEWINDS_DATA_DIR")
    data_set, verdicts = load("mmlu_pro", data_dir=folder), recorded_verdicts(folder)
    models = ("Meta-Llama-3_1-8B-Instruct", "mathstral-7B", "Mistral-7B-Instruct-v0.2")
    rates_AT = np.array(
        [
            [
                np.mean([verdicts[model][row.task_id] for row in data_set.rows_of(name)])
                for name in data_set.types
            ]
            for model in models
        ]
    )
    shares_T = np.full(len(data_set.types), 1 / len(data_set.types))
    curve = 100 * bound_curve(rates_AT, shares_T, [1 / 3, 0.36, 0.40, 0.50])
    assert curve == pytest.approx([43.5, 43.9, 44.6, 45.8], abs=0.15)
