"""Plots of a study: one line an arm, with intervals, and published values as crosses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CROWDED = 8
"""With more lines the legend stands beside the picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One arm. Axis P: points; `low_P` and `high_P` bound the intervals of y."""

    label: str
    x_P: Sequence[float]
    y_P: Sequence[float]
    low_P: Sequence[float]
    high_P: Sequence[float]
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """One picture."""

    name: str
    """File name without its ending."""
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    published: Sequence[tuple[str, float, float]] = ()
    """(label, x, y) of values from a paper."""
    log_x: bool = False


def draw(plot: LinePlot, folder: Path) -> Path:
    """Writes `<name>.png` into the folder and returns it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    crowded = len(plot.lines) > CROWDED
    figure, axes = pyplot.subplots(figsize=(9.5 if crowded else 7.5, 4.5), layout="constrained")
    axes.set_prop_cycle(color=pyplot.get_cmap("tab20" if crowded else "tab10").colors)
    for line in plot.lines:
        _draw_line(axes, line)
    for label, x, y in plot.published:
        axes.plot([x], [y], "kx", markersize=9, markeredgewidth=2)
        axes.annotate(label, (x, y), textcoords="offset points", xytext=(6, 4), fontsize=8)
    if plot.log_x:
        axes.set_xscale("log")
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8, **({"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if crowded else {}))
    path = folder / f"{plot.name}.png"
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _draw_line(axes: Any, line: Line) -> None:
    below = [y - low for y, low in zip(line.y_P, line.low_P, strict=True)]
    above = [high - y for y, high in zip(line.y_P, line.high_P, strict=True)]
    style = "o-" if line.joined else "o"
    axes.errorbar(line.x_P, line.y_P, yerr=[below, above], fmt=style, capsize=3, label=line.label)
