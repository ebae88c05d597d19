"""A measured figure with its target, and how figures are taken and shown."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of a benchmark: the median over repeats, and what was asked for."""

    name: str
    value: float
    unit: str
    samples: tuple[float, ...]
    """One for each repeat."""
    method: str = ""
    target: float | None = None
    better: Literal["lower", "higher"] = "lower"
    """Which side of the target is the good one."""

    @property
    def met(self) -> bool | None:
        """None where nothing was asked for."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


def figure(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    method: str = "",
    target: float | None = None,
    better: Literal["lower", "higher"] = "lower",
) -> Figure:
    """The median of `samples`."""
    return Figure(
        name=name,
        value=statistics.median(samples),
        unit=unit,
        samples=tuple(samples),
        method=method,
        target=target,
        better=better,
    )


def interleaved_us(
    arms: Sequence[Callable[[], object]], *, repeats: int = 15, repeat_s: float = 0.03
) -> list[list[float]]:
    """Microseconds of one call of each arm, one sample a repeat. Arms take turns (A B A B), so that what slows
    the machine for a while slows all of them."""
    calls = [_calls_in(arm, repeat_s) for arm in arms]
    samples: list[list[float]] = [[] for _ in arms]
    for _ in range(repeats):
        for arm, count, mine in zip(arms, calls, samples, strict=True):
            began_s = time.perf_counter()
            for _ in range(count):
                arm()
            mine.append((time.perf_counter() - began_s) / count * 1e6)
    return samples


def _calls_in(arm: Callable[[], object], repeat_s: float) -> int:
    """How many calls take about `repeat_s`; warms the arm up as well."""
    count = 1
    while True:
        began_s = time.perf_counter()
        for _ in range(count):
            arm()
        if (took_s := time.perf_counter() - began_s) > repeat_s / 4:
            return max(1, round(count * repeat_s / took_s))
        count *= 2


def show(figures: Sequence[Figure], title: str, console: Console) -> None:
    """One JSON line for each figure, then a table."""
    for each in figures:
        console.print_json(json.dumps(asdict(each) | {"met": each.met}), indent=None)
    table = Table(title=title)
    for heading in ("figure", "median", "range", "unit", "target", ""):
        table.add_column(heading, justify="left" if heading in {"figure", "unit"} else "right")
    for each in figures:
        sign = "<=" if each.better == "lower" else ">="
        table.add_row(
            each.name,
            f"{each.value:,.4g}",
            f"{min(each.samples):,.4g} .. {max(each.samples):,.4g}",
            each.unit,
            "" if each.target is None else f"{sign} {each.target:,.4g}",
            {None: "", True: "met", False: "NOT MET"}[each.met],
        )
    console.print(table)
