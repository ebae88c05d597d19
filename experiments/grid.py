"""A table as a value, shown on a terminal or in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from experiments.stats import Estimate, Proportion

NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A titled table of text; the first column names the row, the others hold figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    brief: frozenset[int] = frozenset()
    """Columns, by position, that a terminal shows without their intervals; the Markdown has them."""

    def rich(self) -> Table:
        # Text, never str: what a model or a user wrote must not be read as markup.
        table = Table(title=Text(self.title), caption=Text(self.note) if self.note else None)
        for position, name in enumerate(self.header):
            table.add_column(Text(name), justify="left" if position == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(
                *(Text(cell.partition(" [")[0] if n in self.brief else cell) for n, cell in enumerate(row))
            )
        return table

    def markdown(self) -> str:
        rule = ["---"] + ["---:"] * (len(self.header) - 1)
        lines = [_line(self.header), _line(rule), *(_line(row) for row in self.rows)]
        return "\n".join([f"### {self.title}", "", *lines, *(["", self.note] if self.note else []), ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def number(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}"


def share(part: int, whole: int) -> str:
    """`12 (34 %)`."""
    return f"{part} ({100 * part / whole:.0f} %)" if whole else str(part)


def percent(proportion: Proportion, *, interval: bool = True) -> str:
    """`66.7 % [55.1, 76.5]`."""
    if proportion.value is None or proportion.interval is None:
        return NOTHING
    low, high = proportion.interval
    return f"{100 * proportion.value:.1f} %" + (f" [{100 * low:.1f}, {100 * high:.1f}]" if interval else "")


def signed(estimate: Estimate, *, scale: float = 1.0, digits: int = 1) -> str:
    """`+4.3 [-1.2, +9.8]`."""
    value, low, high = (scale * x for x in (estimate.value, estimate.low, estimate.high))
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
