"""Which specialists there are, and what each is trained on. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from experiments.datasets.families.catalogue import FAMILIES, family_rows
from experiments.datasets.families.family import Family, Puzzle
from experiments.datasets.rows import Row

TRAINING_STREAM = "training"
EVALUATION_STREAM = "evaluation"
"""Runs draw from generators named "family/difficulty/seed"; training and evaluation from ones that start with these
words. Small families repeat themselves, so training also leaves out, word for word, every problem that the
evaluation or certain runs may ask."""
EVALUATION_ROWS = 400
BEGINNING = 0.25
"""Share of the training that is on the easiest problems."""
EASY, USUAL = (0, 0, 1), (0, 1, 1, 2)
"""Difficulties to draw from in the beginning, and then; 0 is smaller than what a run can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs that training leaves the problems of aside: those with the seeds 1 to `seeds`, of each family the first
    `rows`."""

    seeds: int
    rows: int


MOST_RUNS = Runs(seeds=20, rows=400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialist:
    """One small model."""

    name: str
    shares: Mapping[str, float]
    """Of each family in its training problems; what is missing it never sees."""
    steps: int
    """Batches of training."""
    batch: int = 32
    """Problems in each."""
    runs: Runs = MOST_RUNS
    """Not in its training."""


SPECIALISTS: Mapping[str, Specialist] = {
    specialist.name: specialist
    for specialist in (
        Specialist(
            name="logic",
            shares={"boolean_expressions": 0.65, "dyck_languages": 0.35},
            steps=4000,
            # Of its small family all else would be four fifths of the problems.
            runs=Runs(seeds=10, rows=40),
        ),
        Specialist(name="letters", shares={"last_letters": 0.3, "word_sorting": 0.7}, steps=1200),
        Specialist(name="counting", shares={"object_counting": 0.75, "last_letters": 0.25}, steps=1500),
        Specialist(
            name="symbols",
            shares={"multistep_arithmetic": 0.9, "boolean_expressions": 0.1},
            steps=5000,
            batch=64,
        ),
        Specialist(
            name="broad",
            shares={
                "boolean_expressions": 0.2,
                "last_letters": 0.2,
                "object_counting": 0.2,
                "dyck_languages": 0.2,
                "multistep_arithmetic": 0.2,
            },
            steps=500,
        ),
    )
}
FAMILIES_OF_POOL = tuple(dict.fromkeys(name for s in SPECIALISTS.values() for name in s.shares))
"""Families that at least one specialist has seen."""


def family(name: str) -> Family:
    """The family of that name."""
    return next(each for each in FAMILIES if each.name == name)


def fresh_rows(name: str, count: int, difficulty: int) -> list[Row]:
    """Problems of one family for the evaluation, the same for the same arguments; up to `EVALUATION_ROWS` of
    difficulty 1 and 2 are none that training has seen."""
    rng = Random(f"{EVALUATION_STREAM}/{name}/{difficulty}")
    return [family(name).generate(rng, difficulty, f"{EVALUATION_STREAM}/{name}/{i}") for i in range(count)]


@cache
def left_out(name: str, runs: Runs) -> frozenset[str]:
    """Problems of one family that training must not see."""
    found: set[str] = set()
    for difficulty in sorted({*EASY, *USUAL} - {0}):
        found.update(row.problem for row in fresh_rows(name, EVALUATION_ROWS, difficulty))
        for seed in range(1, runs.seeds + 1):
            found.update(row.problem for row in family_rows(family(name), seed, runs.rows, difficulty))
    return frozenset(found)


def training_puzzles(
    name: str, seed: int, difficulties: Sequence[int], runs: Runs = MOST_RUNS
) -> Iterator[Puzzle]:
    """Problems of one family without end."""
    rng = Random(f"{TRAINING_STREAM}/{name}/{difficulties}/{seed}")
    while True:
        puzzle = family(name).draw(rng, rng.choice(difficulties))
        if puzzle.problem not in left_out(name, runs):
            yield puzzle
