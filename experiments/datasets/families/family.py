"""What a family is: a name, an answer format, and a function that draws a problem. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from experiments.datasets.rows import DataSetError, Row

YES_NO = ("Yes", "No")
DIFFICULTIES = range(1, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """A problem with the answer that the program computed."""

    problem: str
    answer: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Problems of one kind."""

    name: str
    answer_format: str
    draw: Callable[[Random, int], Puzzle]
    """Draws a puzzle of difficulty 1 (a few steps) to 5 (many); all chance comes from the generator given."""

    def generate(self, rng: Random, difficulty: int, task_id: str) -> Row:
        """One row. Raises DataSetError for an unknown difficulty."""
        if difficulty not in DIFFICULTIES:
            raise DataSetError(f"difficulty {difficulty} of family {self.name!r} is not from 1 to 5")
        puzzle = self.draw(rng, difficulty)
        return Row(
            task_id=task_id,
            task_type=self.name,
            problem=puzzle.problem,
            answer=puzzle.answer,
            answer_format=self.answer_format,
            choices=puzzle.choices,
            grader="text",
        )


def with_options(rng: Random, question: str, right: str, wrong: Sequence[str]) -> Puzzle:
    """A multiple-choice puzzle: the options in random order, the answer its letter in brackets."""
    options = [right, *wrong]
    assert len(set(options)) == len(options), "options must differ"
    rng.shuffle(options)
    letters = tuple(f"({chr(ord('A') + position)})" for position in range(len(options)))
    lines = "\n".join(f"{letter} {option}" for letter, option in zip(letters, options, strict=True))
    return Puzzle(
        problem=f"{question}\nOptions:\n{lines}", answer=letters[options.index(right)], choices=letters
    )


NAMES = (
    "Ada", "Boris", "Carmen", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Keiko", "Liam",
    "Mira", "Nadia", "Oscar", "Priya", "Quentin", "Rosa", "Stefan", "Tessa", "Umar", "Vera", "Wanda", "Yusuf",
)  # fmt: skip

WORDS = (
    "acorn", "anchor", "apron", "arrow", "basin", "beacon", "bramble", "breeze", "bridge", "bucket", "cabin",
    "candle", "canyon", "carpet", "castle", "cedar", "cinder", "clover", "cobalt", "copper", "cradle", "dagger",
    "delta", "desert", "dragon", "ember", "engine", "fabric", "falcon", "feather", "fennel", "ferry", "flint",
    "forest", "galaxy", "garden", "garnet", "ginger", "glacier", "goblet", "granite", "hammer", "harbor",
    "hazel", "helmet", "hollow", "icicle", "indigo", "island", "ivory", "jacket", "jasper", "jigsaw", "juniper",
    "kernel", "kettle", "ladder", "lagoon", "lantern", "lemon", "linen", "lizard", "magnet", "mango", "maple",
    "marble", "meadow", "mirror", "mosaic", "needle", "nutmeg", "oasis", "olive", "orbit", "orchard", "otter",
    "oyster", "paddle", "parcel", "pebble", "pepper", "pillar", "pocket", "prairie", "quartz", "quiver",
    "rabbit", "ribbon", "river", "rocket", "saddle", "saffron", "sandal", "shovel", "signal", "silver",
    "spiral", "spruce", "summit", "tablet", "temple", "thimble", "thunder", "timber", "tunnel", "turnip",
    "umbrella", "valley", "velvet", "violet", "walnut", "whisper", "willow", "window", "winter", "zephyr",
)  # fmt: skip
