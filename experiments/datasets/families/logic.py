"""Families about truth and order."""

from itertools import pairwise
from random import Random

from experiments.datasets.families.family import NAMES, YES_NO, Family, Puzzle, with_options

_POSITIONS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def _boolean_expression(rng: Random, difficulty: int) -> Puzzle:
    text, value = _boolean(rng, leaves=2 + 2 * difficulty)
    return Puzzle(
        problem=f"Work out the value of this logical expression: {text}",
        answer=str(value),
        choices=("True", "False"),
    )


def _boolean(rng: Random, leaves: int) -> tuple[str, bool]:
    """A bracketed expression and its value, built together so that precedence cannot matter."""
    if leaves == 1:
        value = rng.random() < 0.5
        return str(value), value
    on_the_left = rng.randint(1, leaves - 1)
    left, left_value = _boolean(rng, on_the_left)
    right, right_value = _boolean(rng, leaves - on_the_left)
    operator = rng.choice(("and", "or"))
    value = (left_value and right_value) if operator == "and" else (left_value or right_value)
    text = f"({left} {operator} {right})"
    return (f"(not {text})", not value) if rng.random() < 0.4 else (text, value)


def _web_of_lies(rng: Random, difficulty: int) -> Puzzle:
    people = rng.sample(NAMES, 3 + difficulty)
    honest = rng.random() < 0.5
    sentences = [f"{people[0]} {'never lies' if honest else 'never tells the truth'}."]
    for before, person in pairwise(people):
        claims_honest = rng.random() < 0.5
        sentences.append(f"{person} claims that {before} {'is honest' if claims_honest else 'is a liar'}.")
        honest = claims_honest == honest
    rng.shuffle(sentences)
    return Puzzle(
        problem="Everyone here either always tells the truth or always lies. "
        + " ".join(sentences)
        + f" Is {people[-1]} honest?",
        answer=YES_NO[not honest],
        choices=YES_NO,
    )


def _dyck_language(rng: Random, difficulty: int) -> Puzzle:
    length = 4 + 4 * difficulty
    symbols: list[str] = []
    open_brackets: list[str] = []
    while len(symbols) < length or not open_brackets:
        if open_brackets and rng.random() < 0.4:
            symbols.append(_BRACKETS[open_brackets.pop()])
        else:
            open_brackets.append(rng.choice(list(_BRACKETS)))
            symbols.append(open_brackets[-1])
    return Puzzle(
        problem="Which brackets must follow so that every bracket in this sequence is closed in the right "
        f"order? {' '.join(symbols)}",
        answer=" ".join(_BRACKETS[bracket] for bracket in reversed(open_brackets)),
    )


def _parity(rng: Random, difficulty: int) -> Puzzle:
    person = rng.choice(NAMES)
    heads = rng.random() < 0.5
    start = "heads" if heads else "tails"
    sentences = []
    for name in rng.sample([name for name in NAMES if name != person], 2 + 2 * difficulty):
        flips = rng.random() < 0.5
        sentences.append(f"{name} {'turns it over' if flips else 'leaves it alone'}.")
        heads ^= flips
    return Puzzle(
        problem=f"{person} puts a coin on the table with {start} up. {' '.join(sentences)} "
        "Does the coin show heads now?",
        answer=YES_NO[not heads],
        choices=YES_NO,
    )


def _logical_order(rng: Random, difficulty: int) -> Puzzle:
    order = rng.sample(NAMES, 2 + difficulty)
    # Neighbouring pairs fix the whole order; in mixed direction and sequence they have to be put together.
    clues = []
    for left, right in pairwise(order):
        if rng.random() < 0.5:
            clues.append(f"{left} finished before {right}.")
        else:
            clues.append(f"{right} finished after {left}.")
    rng.shuffle(clues)
    place = rng.randrange(len(order))
    question = f"In a race nobody tied. {' '.join(clues)} Who finished {_POSITIONS[place]}?"
    return with_options(rng, question, order[place], [name for name in order if name != order[place]])


BOOLEAN_EXPRESSIONS = Family(
    name="boolean_expressions", answer_format="True or False", draw=_boolean_expression
)
WEB_OF_LIES = Family(name="web_of_lies", answer_format="Yes or No", draw=_web_of_lies)
DYCK_LANGUAGES = Family(
    name="dyck_languages",
    answer_format="the missing closing brackets in order, separated by single spaces",
    draw=_dyck_language,
)
PARITY = Family(name="parity", answer_format="Yes or No", draw=_parity)
LOGICAL_ORDER = Family(
    name="logical_order", answer_format="one option letter in brackets, for example (A)", draw=_logical_order
)
