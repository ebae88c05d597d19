"""What every data set is made of, and how it is cut into warm-up and test rows. Pure."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from actors.errors import Final

GraderName = Literal["text", "letter", "number", "math"]
Part = Literal["any", "warm_up", "test"]


class DataSetError(Final):
    """A data set that is missing, damaged or too small; names the file and row, and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem with its true answer."""

    task_id: str
    """Unique over all data sets: data set, then where the row stands in it."""
    task_type: str
    problem: str
    answer: str
    answer_format: str
    """What a valid answer looks like, for the prompt."""
    grader: GraderName
    choices: tuple[str, ...] = ()
    """The closed set of answers, where there is one; the true answer is among them."""
    part: Part = "any"
    """Where a published split says which phase may use the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Rows under one name."""

    name: str
    label: str
    """What a report calls it: which rows, and where they come from."""
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise DataSetError(f"data set {self.name!r} has no rows")
        if len({row.task_id for row in self.rows}) != len(self.rows):
            raise DataSetError(f"data set {self.name!r} uses a task id twice")

    @property
    def types(self) -> tuple[str, ...]:
        """Task types in the order of their first row."""
        return tuple(dict.fromkeys(row.task_type for row in self.rows))

    def rows_of(self, task_type: str) -> tuple[Row, ...]:
        """All rows of one type, in their order. Raises DataSetError, listing the known types."""
        rows = tuple(row for row in self.rows if row.task_type == task_type)
        if not rows:
            known = ", ".join(self.types)
            raise DataSetError(f"data set {self.name!r} has no type {task_type!r}; known: {known}")
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows for the two phases of a run; no row and no problem text is in both. Grouped by type."""

    warm_up: tuple[Row, ...]
    test: tuple[Row, ...]


def split(
    data_set: DataSet,
    *,
    warm_up_per_type: int | None,
    test_per_type: int | None,
    seed: int,
    types: Sequence[str] | None = None,
) -> Split:
    """Draw disjoint warm-up and test rows, equally many of each type.

    None takes all that may be used: for `test_per_type` only where the rows carry a published split, for
    `warm_up_per_type` all that the test left. The test rows of a type depend on the seed and their number
    alone, not on the other types nor on the length of the warm-up. Raises DataSetError where a type has too
    few rows.
    """
    warm_up: list[Row] = []
    test: list[Row] = []
    for task_type in types if types is not None else data_set.types:
        rows = list(data_set.rows_of(task_type))
        random.Random(f"{seed}/{task_type}").shuffle(rows)
        where = f"type {task_type!r} of data set {data_set.name!r}"
        if test_per_type is None:
            candidates = [row for row in rows if row.part == "test"]
            if not candidates:
                raise DataSetError(f"no published split marks test rows of {where}; say how many to draw")
        else:
            candidates = [row for row in rows if row.part != "warm_up"]
        chosen = _first(candidates, test_per_type, f"test rows of {where}")
        taken = {row.problem for row in chosen}
        left = [row for row in rows if row.part != "test" and row.problem not in taken]
        test.extend(chosen)
        warm_up.extend(
            _first(left, warm_up_per_type, f"warm-up rows of {where}, beside {len(chosen)} of test")
        )
    return Split(warm_up=tuple(warm_up), test=tuple(test))


def _first(rows: Iterable[Row], count: int | None, what: str) -> list[Row]:
    """The first `count` rows of different problems (a few recorded sets hold a problem twice)."""
    distinct = list({row.problem: row for row in reversed(list(rows))}.values())[::-1]
    if count is None:
        return distinct
    if count < 0:
        raise DataSetError(f"cannot draw {count} {what}; give 0 or more")
    if len(distinct) < count:
        raise DataSetError(f"there are {len(distinct)} {what}, and {count} were asked for; ask for fewer")
    return distinct[:count]
