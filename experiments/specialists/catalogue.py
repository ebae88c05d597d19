"""Which specialists there are, and what each is trained on. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from experiments.datasets.families.catalogue import FAMILIES
from experiments.datasets.families.family import Family
from experiments.datasets.rows import Row

TRAINING_STREAM = "training"
"""Runs draw from generators named "family/difficulty/seed"; training draws from one that starts with this word.
Problems that a run with one of the first seeds may ask are left out on top."""
DIFFICULTIES = (1, 1, 2)
"""Of the training problems: two thirds easy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialist:
    """One small model."""

    name: str
    shares: Mapping[str, float]
    """Of each family in its training problems; what is missing it never sees."""
    steps: int
    """Batches of training."""


SPECIALISTS: Mapping[str, Specialist] = {
    specialist.name: specialist
    for specialist in (
        Specialist(name="logic", shares={"boolean_expressions": 0.7, "dyck_languages": 0.3}, steps=1800),
        Specialist(name="letters", shares={"last_letters": 0.3, "word_sorting": 0.7}, steps=2400),
        Specialist(name="counting", shares={"object_counting": 0.75, "last_letters": 0.25}, steps=2200),
        Specialist(
            name="symbols", shares={"multistep_arithmetic": 0.9, "boolean_expressions": 0.1}, steps=9000
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
            steps=800,
        ),
    )
}
FAMILIES_OF_POOL = tuple(dict.fromkeys(name for s in SPECIALISTS.values() for name in s.shares))
"""Families that at least one specialist has seen."""


def family(name: str) -> Family:
    """The family of that name."""
    return next(each for each in FAMILIES if each.name == name)


def evaluation_problems(name: str, seeds: int = 3, rows: int = 400) -> frozenset[str]:
    """Problems that runs with the first few seeds may ask: what training must not see."""
    from experiments.datasets.families.catalogue import load_families

    found: set[str] = set()
    for seed in range(1, seeds + 1):
        for difficulty in sorted(set(DIFFICULTIES)):
            data = load_families(seed=seed, rows_per_type=rows, difficulty=difficulty)
            found.update(row.problem for row in data.rows if row.task_type == name)
    return frozenset(found)


def training_rows(name: str, seed: int, left_out: frozenset[str]) -> Iterator[Row]:
    """Problems of one family without end."""
    rng = Random(f"{TRAINING_STREAM}/{name}/{seed}")
    chosen = family(name)
    while True:
        row = chosen.generate(rng, rng.choice(DIFFICULTIES), "training")
        if row.problem not in left_out:
            yield row
