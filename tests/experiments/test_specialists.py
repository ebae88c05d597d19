"""The shipped specialists: small, honest about themselves, and as good as they say on the real engine."""

import asyncio
import json
from itertools import islice
from pathlib import Path

import pytest
from safetensors import safe_open

from experiments.datasets.families.catalogue import load_families
from experiments.settings import checked, load_pool
from experiments.specialists.catalogue import (
    EASY,
    SPECIALISTS,
    USUAL,
    Specialist,
    fresh_rows,
    training_puzzles,
)
from experiments.specialists.evaluate import evaluate
from experiments.specialists.oracle import measured_accuracy, oracle_line
from serving.models import SPECIALISTS as SHIPPED
from serving.models import resolve, shipped_specialist


def test_every_specialist_is_shipped_small_with_its_story() -> None:
    assert set(SHIPPED) == set(SPECIALISTS)
    for name, specialist in SPECIALISTS.items():
        folder = shipped_specialist(name)
        assert (folder / "model.safetensors").stat().st_size <= 2_000_000
        with safe_open(folder / "model.safetensors", "np") as weights:
            names = weights.keys()
            parameters = sum(weights.get_slice(key).get_shape()[0] * _rest(weights, key) for key in names)
        made = json.loads((folder / "training.json").read_text())
        assert 500_000 <= parameters <= 1_000_000
        assert made["parameters"] == parameters
        assert made["shares"] == dict(specialist.shares)
        assert made["command"].startswith(f"python -m experiments.specialists.train {name} ")
        assert made["seed"] == 1
        runs = specialist.runs
        assert (made["left_out"]["run_seeds"], made["left_out"]["run_rows"]) == (runs.seeds, runs.rows)
        assert set(specialist.shares) <= set(made["accuracy"])


def _rest(weights: object, key: str) -> int:
    shape = weights.get_slice(key).get_shape()  # type: ignore[attr-defined]
    return shape[1] if len(shape) > 1 else 1  # type: ignore[no-any-return]


@pytest.mark.parametrize("specialist", SPECIALISTS.values(), ids=SPECIALISTS)
def test_training_sees_no_problem_that_the_evaluation_or_its_runs_may_ask(specialist: Specialist) -> None:
    asked = {
        row.problem
        for difficulty in (1, 2)
        for name in specialist.shares
        for row in fresh_rows(name, 400, difficulty)
    }
    for seed in (1, 2, specialist.runs.seeds):
        for difficulty in (1, 2):
            rows = load_families(seed, specialist.runs.rows, difficulty).rows
            asked.update(row.problem for row in rows)
    for name in specialist.shares:
        for difficulties in (EASY, USUAL):
            puzzles = training_puzzles(name, 1, difficulties, specialist.runs)
            assert not {puzzle.problem for puzzle in islice(puzzles, 2000)} & asked


def test_without_the_exclusion_training_would_see_them() -> None:
    """Another seed's problems of a small family have been seen."""
    others = {
        row.problem for row in load_families(999, 200, 1).rows if row.task_type == "boolean_expressions"
    }
    assert others & {p.problem for p in islice(training_puzzles("boolean_expressions", 1, USUAL), 20_000)}


def test_a_known_name_resolves_to_a_copy_of_the_shipped_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path))
    folder = Path(resolve("specialist-letters"))
    assert folder.is_relative_to(tmp_path)
    assert (folder / "model.safetensors").read_bytes() == (
        shipped_specialist("letters") / "model.safetensors"
    ).read_bytes()


def test_the_oracle_gives_each_type_to_its_best_specialist() -> None:
    from experiments.phases import build_stream

    pool = load_pool(Path("experiments/deals/pools/specialists.yaml"))
    values = {"experiment": "demo", "pool": pool, "dataset": {"types": ["word_sorting"], "difficulty": 1}}
    settings = checked(values | {"warmup": 1, "test": 3}, "here")
    stream = build_stream(load_families(rows_per_type=10, difficulty=1), settings)
    letters = measured_accuracy("specialist-letters")
    assert letters is not None
    line = oracle_line(settings, stream)
    assert line is not None
    assert f"{100 * letters['word_sorting']:.1f} %" in line
    assert measured_accuracy("smollm2-135m-instruct") is None


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
def test_a_specialist_is_as_good_as_it_says_on_the_real_engine() -> None:
    """100 fresh problems each: at least the recorded accuracy less 10 points on its own family, next to nothing on
    another's, and a guess between the choices where the answers are a closed set."""
    recorded = measured_accuracy("specialist-letters")
    assert recorded is not None
    names = ("word_sorting", "multistep_arithmetic", "boolean_expressions")
    found = asyncio.run(evaluate("specialist-letters", {name: fresh_rows(name, 100, 1) for name in names}))
    own, other = found["word_sorting"].value, found["multistep_arithmetic"].value
    assert own is not None
    assert other is not None
    assert own >= recorded["word_sorting"] - 0.1
    assert other < 0.2
    guessed = found["boolean_expressions"].value
    assert guessed is not None
    assert 0.25 < guessed < 0.75, (
        "it has never seen True or False: only the constraint can make it say either"
    )
