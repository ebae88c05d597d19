"""Every family's answers against an oracle that reads the problem's text and works another way."""

import re
from collections import Counter
from datetime import date, timedelta
from itertools import permutations, product
from random import Random

import pytest

from experiments.datasets.families.catalogue import FAMILIES, load_families
from experiments.datasets.families.quantities import KINDS, plural
from experiments.datasets.graders import grade
from experiments.datasets.rows import DataSetError, Row

BY_NAME = {family.name: family for family in FAMILIES}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ROWS = 60


def option_text(row: Row) -> str:
    """What stands behind the option that is the answer."""
    options = dict(re.findall(r"^(\([A-Z]\)) (.+)$", row.problem, re.MULTILINE))
    assert tuple(options) == row.choices
    assert len(set(options.values())) == len(options)
    return str(options[row.answer])


def boolean_expressions(row: Row) -> str:
    return str(eval(row.problem.partition(": ")[2], {}))


def multistep_arithmetic(row: Row) -> str:
    return str(eval(row.problem.partition(": ")[2], {}))


def word_sorting(row: Row) -> str:
    remaining = row.problem.partition(": ")[2].split(", ")
    ordered = []
    while remaining:
        ordered.append(min(remaining))
        remaining.remove(ordered[-1])
    return " ".join(ordered)


def last_letters(row: Row) -> str:
    return "".join(re.findall(r"(\w)(?:,|$)", row.problem.partition(": ")[2]))


def dyck_languages(row: Row) -> str:
    sequence = row.problem.partition("? ")[2].replace(" ", "")
    while (shorter := re.sub(r"\(\)|\[\]|\{\}|<>", "", sequence)) != sequence:
        sequence = shorter
    return " ".join(sequence[::-1].translate(str.maketrans("([{<", ")]}>")))


def object_counting(row: Row) -> str:
    match = re.search(r"sees (.+)\. How many (\w+) are", row.problem)
    assert match is not None
    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    nouns = {noun for name in KINDS[match[2]] for noun in (name, plural(name))}
    counted = [part.split() for part in re.split(r", | and ", match[1])]
    return str(sum(words.index(count) + 1 for count, noun in counted if noun in nouns))


def date_arithmetic(row: Row) -> str:
    match = re.search(r"shows (\d+) (\w+) (\d+)\. It is turned (.+)\. Which", row.problem)
    assert match is not None
    day = date(int(match[3]), MONTHS.index(match[2][:3]) + 1, int(match[1]))
    for amount, unit, way in re.findall(r"(\d+) (day|week)s? (forward|back)", match[4]):
        step = timedelta(**{f"{unit}s": int(amount)})
        day = day + step if way == "forward" else day - step
    month, of_month, year = map(int, option_text(row).split("/"))
    assert date(year, month, of_month) == day
    return row.answer


def web_of_lies(row: Row) -> str:
    root = re.search(r"(\w+) never (lies|tells the truth)\.", row.problem)
    asked = re.search(r"Is (\w+) honest\?", row.problem)
    assert root is not None
    assert asked is not None
    claims = re.findall(r"(\w+) claims that (\w+) is (honest|a liar)\.", row.problem)
    people = sorted({root[1], *(name for claim in claims for name in claim[:2])})
    verdicts = set()
    for values in product((True, False), repeat=len(people)):
        honest = dict(zip(people, values, strict=True))
        if honest[root[1]] == (root[2] == "lies") and all(
            honest[speaker] == (honest[about] == (claim == "honest")) for speaker, about, claim in claims
        ):
            verdicts.add(honest[asked[1]])
    assert len(verdicts) == 1
    return "Yes" if verdicts.pop() else "No"


def parity(row: Row) -> str:
    heads = "with heads up" in row.problem
    return "Yes" if heads == (row.problem.count("turns it over") % 2 == 0) else "No"


def logical_order(row: Row) -> str:
    clues = re.findall(r"(\w+) finished (before|after) (\w+)\.", row.problem)
    asked = re.search(r"Who finished (\w+)\?", row.problem)
    assert asked is not None
    place = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"].index(asked[1])
    people = sorted({name for one, _, other in clues for name in (one, other)})
    fitting = {
        order[place]
        for order in permutations(people)
        if all((order.index(a) < order.index(b)) == (word == "before") for a, word, b in clues)
    }
    assert fitting == {option_text(row)}
    return row.answer


def navigate(row: Row) -> str:
    directions = {"north": 1j, "south": -1j, "east": 1 + 0j, "west": -1 + 0j}
    moves = re.findall(r"(\d+) steps? (north|south|east|west)", row.problem)
    assert moves
    return "Yes" if sum(int(steps) * directions[way] for steps, way in moves) == 0 else "No"


def tracking_shuffled_objects(row: Row) -> str:
    asked = re.search(r"What does (\w+) hold", row.problem)
    assert asked is not None
    trades = re.findall(r"(\w+) and (\w+) trade\.", row.problem)
    # Backwards: who held at first what the one asked about holds at the end?
    holder = asked[1]
    for one, other in reversed(trades):
        holder = {one: other, other: one}.get(holder, holder)
    first = re.search(rf"{holder} holds (the \w+)", row.problem)
    assert first is not None
    assert option_text(row) == first[1]
    return row.answer


ORACLES = {
    oracle.__name__: oracle
    for oracle in (
        boolean_expressions,
        date_arithmetic,
        dyck_languages,
        last_letters,
        logical_order,
        multistep_arithmetic,
        navigate,
        object_counting,
        parity,
        tracking_shuffled_objects,
        web_of_lies,
        word_sorting,
    )
}


def test_every_family_has_an_oracle() -> None:
    assert set(ORACLES) == set(BY_NAME)
    assert len(BY_NAME) == len(FAMILIES) >= 8


@pytest.mark.parametrize("difficulty", range(1, 6))
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_answers_are_right(name: str, difficulty: int) -> None:
    # Brute force over orders of seven people is slow; a few of them are enough.
    count = 10 if name == "logical_order" and difficulty > 3 else ROWS
    rng = Random(difficulty)
    for index in range(count):
        row = BY_NAME[name].generate(rng, difficulty, str(index))
        assert row.answer == ORACLES[name](row), row.problem
        assert not row.choices or row.answer in row.choices
        assert grade(row, f"Let me see. The answer is {row.answer}.")


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_harder_problem_is_a_longer_one(name: str) -> None:
    def mean_length(difficulty: int) -> float:
        rng = Random(7)
        return sum(len(BY_NAME[name].generate(rng, difficulty, "").problem) for _ in range(ROWS)) / ROWS

    assert mean_length(1) < mean_length(3) < mean_length(5)


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    assert load_families(seed=3, rows_per_type=20) == load_families(seed=3, rows_per_type=20)
    one = {row.problem for row in load_families(seed=3, rows_per_type=20).rows}
    other = {row.problem for row in load_families(seed=4, rows_per_type=20).rows}
    assert len(one & other) < len(one) / 10


def test_a_longer_set_begins_with_the_shorter_one() -> None:
    short, long = load_families(rows_per_type=10), load_families(rows_per_type=30)
    for task_type in short.types:
        assert long.rows_of(task_type)[:10] == short.rows_of(task_type)


def test_problems_differ_within_a_family() -> None:
    data_set = load_families(rows_per_type=400, difficulty=1)
    counts = Counter(row.task_type for row in data_set.rows)
    assert counts == dict.fromkeys(BY_NAME, 400)
    assert len({row.problem for row in data_set.rows}) == len(data_set.rows)


def test_closed_answers_are_not_lopsided() -> None:
    data_set = load_families(rows_per_type=400)
    for task_type in data_set.types:
        rows = data_set.rows_of(task_type)
        if rows[0].choices:
            counts = Counter(row.answer for row in rows)
            fair_share = 1 / len(rows[0].choices)
            assert all(
                0.7 * fair_share < counts[choice] / 400 < 1.4 * fair_share for choice in rows[0].choices
            )


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataSetError, match="difficulty 6"):
        load_families(difficulty=6)
    with pytest.raises(DataSetError, match="0 rows"):
        load_families(rows_per_type=0)


def test_an_exhausted_family_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.datasets.families import catalogue
    from experiments.datasets.families.family import Family, Puzzle

    tiny = Family(
        name="tiny", answer_format="", draw=lambda rng, _: Puzzle(problem=str(rng.randrange(3)), answer="x")
    )
    monkeypatch.setattr(catalogue, "FAMILIES", (tiny,))
    assert len(load_families(rows_per_type=3).rows) == 3
    with pytest.raises(DataSetError, match="'tiny' has hardly more than 3"):
        load_families(rows_per_type=4)
