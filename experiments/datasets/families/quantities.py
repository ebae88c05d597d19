"""Families about numbers and dates."""

from datetime import date, timedelta
from random import Random

from experiments.datasets.families.family import NAMES, Family, Puzzle, with_options

KINDS = {
    "fruits": ("apple", "banana", "pear", "plum", "peach", "kiwi", "mango", "fig"),
    "animals": ("dog", "cat", "horse", "rabbit", "goat", "duck", "cow", "frog"),
    "instruments": ("violin", "flute", "drum", "trumpet", "harp", "guitar", "cello", "piano"),
    "tools": ("hammer", "saw", "drill", "wrench", "chisel", "shovel", "rake", "axe"),
}
"""What is counted, by kind; plurals are made by `plural`."""
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def plural(noun: str) -> str:
    """The plural of a noun in `KINDS`."""
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def _object_counting(rng: Random, difficulty: int) -> Puzzle:
    asked, other = rng.sample(list(KINDS), 2)
    wanted = rng.sample(KINDS[asked], 2 + difficulty // 2)
    unwanted = rng.sample(KINDS[other], 1 + difficulty // 2)
    total = 0
    parts = []
    for noun in rng.sample([*wanted, *unwanted], len(wanted) + len(unwanted)):
        count = rng.randint(1, min(9, 2 + difficulty))
        total += count if noun in wanted else 0
        parts.append(f"{_NUMBER_WORDS[count]} {noun if count == 1 else plural(noun)}")
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}"
    return Puzzle(
        problem=f"At a village fair {rng.choice(NAMES)} sees {listed}. How many {asked} are that in all?",
        answer=str(total),
    )


def _multistep_arithmetic(rng: Random, difficulty: int) -> Puzzle:
    text, value = _arithmetic(rng, leaves=2 + difficulty)
    return Puzzle(problem=f"Calculate: {text}", answer=str(value))


def _arithmetic(rng: Random, leaves: int) -> tuple[str, int]:
    if leaves == 1:
        value = rng.randint(-9, 9)
        return str(value), value
    on_the_left = rng.randint(1, leaves - 1)
    left, left_value = _arithmetic(rng, on_the_left)
    right, right_value = _arithmetic(rng, leaves - on_the_left)
    operator = rng.choice("+-*")
    value = {
        "+": left_value + right_value,
        "-": left_value - right_value,
        "*": left_value * right_value,
    }[operator]
    return f"({left} {operator} {right})", value


def _date_arithmetic(rng: Random, difficulty: int) -> Puzzle:
    start = date(1900, 1, 1) + timedelta(days=rng.randrange(200 * 365))
    reached = start
    moves = []
    for _ in range(1 + difficulty // 2):
        days = rng.randint(1, 10 * difficulty) * rng.choice((1, -1))
        # Weeks are one more thing to convert.
        unit, length = ("week", 7) if days % 7 == 0 else ("day", 1)
        amount = _counted(abs(days) // length, unit)
        moves.append(f"{amount} {'forward' if days > 0 else 'back'}")
        reached += timedelta(days=days)
    offsets = rng.sample([n for n in range(-12, 13) if n], 3)
    wrong = [_american(reached + timedelta(days=offset)) for offset in offsets]
    # A month slipped is the mistake that people make.
    wrong.append(_american(reached + timedelta(days=31 if reached.day > 1 else -31)))
    question = (
        f"A calendar shows {start.day} {MONTHS[start.month - 1]} {start.year}. It is turned {', then '.join(moves)}. "
        "Which date does it show then, as month/day/year?"
    )
    return with_options(rng, question, _american(reached), wrong)


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _american(day: date) -> str:
    return f"{day.month:02}/{day.day:02}/{day.year:04}"


OBJECT_COUNTING = Family(
    name="object_counting", answer_format="a whole number, for example 12", draw=_object_counting
)
MULTISTEP_ARITHMETIC = Family(
    name="multistep_arithmetic", answer_format="a whole number, for example -12", draw=_multistep_arithmetic
)
DATE_ARITHMETIC = Family(
    name="date_arithmetic",
    answer_format="one option letter in brackets, for example (A)",
    draw=_date_arithmetic,
)
