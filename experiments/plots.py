"""The plots of a report, as PNG files. The one home of matplotlib."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from experiments.phase_summary import PhaseSummary, QueueSeries
from experiments.stats import Proportion
from experiments.summary import Summary

_STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "grid.color": "#e3e6ea",
    "font.size": 9,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 130,
    "savefig.dpi": 130,
}
_BLUE, _ORANGE, _GREY = "#2f6db3", "#e08a2c", "#8a9199"
_FEW = 10
"""Up to so many agents each gets a colour and a legend entry of its own."""


def write_plots(summary: Summary, phase: PhaseSummary, folder: Path) -> list[tuple[str, Path]]:
    """Writes every plot that has something to show; (caption, file) of each, in the order of a report."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(_STYLE):
        for name, caption, draw in PLOTS:
            figure = draw(summary, phase)
            state = "" if summary.complete else " Unfinished run."
            models = textwrap.shorten(summary.backend_label, 160, placeholder=" …")
            footer = f"Run {summary.run_id}, V = {summary.quality_weight:g}.{state} {models}"
            figure.supxlabel(footer, fontsize=7, color=_GREY, x=0.01, ha="left", wrap=True)
            path = folder / f"{name}.png"
            figure.savefig(path)
            plt.close(figure)
            written.append((caption, path))
    return written


def accuracy(summary: Summary, phase: PhaseSummary) -> Any:
    """Accuracy by type and of all, with 95 % intervals."""
    del summary
    bars: list[tuple[str, Proportion]] = [("all types", phase.accuracy)]
    bars += list(zip(phase.types_T, phase.accuracy_T, strict=True))
    figure, axes = _figure(height=1.6 + 0.3 * len(bars))
    for y, (_, proportion) in enumerate(bars):
        if proportion.value is None or proportion.interval is None:
            axes.text(1, y, "none finished", va="center", color=_GREY)
            continue
        value, (low, high) = 100 * proportion.value, proportion.interval
        axes.barh(y, value, color=_ORANGE if y == 0 else _BLUE, height=0.65)
        axes.plot([100 * low, 100 * high], [y, y], color="#20262d", linewidth=1.2)
        axes.text(101, y, f"{proportion.successes}/{proportion.total}", va="center", fontsize=8)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("correct (%), line: 95 % interval")
    axes.set_title(f"Accuracy by task type, {phase.phase} phase")
    return figure


def throughput(summary: Summary, phase: PhaseSummary) -> Any:
    """Answers per minute over the phase, and its mean."""
    del summary
    figure, axes = _figure(height=3.2)
    length_s = max(phase.time.total_s, *phase.finished_at_s, 1e-9)
    bins = min(40, max(5, phase.answered // 5))
    width_s = length_s / bins
    counts = [0] * bins
    for at_s in phase.finished_at_s:
        counts[min(bins - 1, int(at_s / width_s))] += 1
    edges_s = [i * width_s for i in range(bins + 1)]
    axes.stairs([60 * count / width_s for count in counts], edges_s, fill=True, color=_BLUE)
    mean = ""
    if phase.throughput_per_min is not None:
        axes.axhline(phase.throughput_per_min, color=_ORANGE, linestyle="--")
        mean = f" (mean {phase.throughput_per_min:,.1f} per minute, dashed)"
    axes.set_xlim(0, length_s)
    axes.set_xlabel("active time of the phase (s)")
    axes.set_ylabel("answers per minute")
    axes.set_title(f"Throughput over time, {phase.phase} phase{mean}")
    return figure


def final_answers(summary: Summary, phase: PhaseSummary) -> Any:
    """Which agent gave the final answers of each type."""
    columns = [list(column) for column in zip(*phase.answers_AT, strict=True)]
    rows = [[sum(answers) for answers in phase.answers_AT], *columns]
    totals = [sum(counts_A) for counts_A in rows]
    figure, axes = _figure(height=2.0 + 0.3 * len(rows))
    colours = _colours(len(phase.answers_AT))
    left = [0.0] * len(rows)
    for agent, colour in enumerate(colours):
        shares = [
            100 * counts_A[agent] / total if total else 0.0
            for counts_A, total in zip(rows, totals, strict=True)
        ]
        axes.barh(
            range(len(rows)), shares, left=left, color=colour, height=0.7, edgecolor="white", linewidth=0.4
        )
        for y, (start, share) in enumerate(zip(left, shares, strict=True)):
            if share >= 9:
                axes.text(
                    start + share / 2, y, f"{share:.0f}", ha="center", va="center", fontsize=7, color="white"
                )
        left = [start + share for start, share in zip(left, shares, strict=True)]
    names = ["all types", *phase.types_T]
    axes.set_yticks(
        range(len(rows)), [f"{name} ({total})" for name, total in zip(names, totals, strict=True)]
    )
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the final answers (%)")
    axes.set_title(f"Final answers by agent and type, {phase.phase} phase")
    _agent_key(figure, axes, summary, colours)
    return figure


def queues(summary: Summary, phase: PhaseSummary) -> Any:
    """Waiting and in-service tasks of each agent over time."""
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 5), layout="constrained")
    colours = _colours(len(phase.agents_A))
    end_s = max([phase.time.total_s, *(s for a in phase.agents_A for s in a.queue.at_s_P[-1:])])
    lines: tuple[tuple[Any, Callable[[QueueSeries], Sequence[int]]], ...] = (
        (above, lambda queue: queue.waiting_P),
        (below, lambda queue: queue.in_service_P),
    )
    for agent, figures in enumerate(phase.agents_A):
        queue = figures.queue
        for axes, series in lines:
            values = series(queue)
            if values:
                # A load holds until the next one is told, so the last one holds to the end.
                axes.step(
                    [*queue.at_s_P, end_s],
                    [*values, values[-1]],
                    where="post",
                    color=colours[agent],
                    linewidth=1,
                )
    for axes, label in ((above, "waiting (tasks)"), (below, "in service (slots)")):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    below.set_xlabel("active time of the phase (s)")
    above.set_title(f"Queue lengths over time, {phase.phase} phase")
    _agent_key(figure, above, summary, colours)
    return figure


def forwards_and_splits(summary: Summary, phase: PhaseSummary) -> Any:
    """Forwards sent and received, and splits, of each agent."""
    agents = phase.agents_A
    groups = (
        ("forwards sent", _BLUE, [agent.forwards_sent for agent in agents]),
        ("forwards received", _GREY, [agent.forwards_received for agent in agents]),
        ("splits", _ORANGE, [agent.splits for agent in agents]),
    )
    figure, axes = _figure(height=3.4)
    for position, (label, colour, values_A) in enumerate(groups):
        places = [a + (position - 1) * 0.27 for a in range(len(agents))]
        axes.bar(places, values_A, width=0.27, color=colour, label=label)
    _agent_axis(axes, summary)
    axes.set_ylabel("count")
    axes.set_ylim(0, 1.05 * max(1, *(max(values_A) for _, _, values_A in groups)))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"Forwards and splits, {phase.phase} phase")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def tokens(summary: Summary, phase: PhaseSummary) -> Any:
    """Prompt and completion tokens of each agent, a panel for each phase."""
    del phase
    figure, axes_P = plt.subplots(
        len(summary.phases),
        1,
        sharex=True,
        squeeze=False,
        figsize=(8, 1.4 + 2 * len(summary.phases)),
        layout="constrained",
    )
    for axes, phase in zip(axes_P[:, 0], summary.phases, strict=True):
        places = range(len(phase.agents_A))
        prompt_A = [agent.prompt_tokens for agent in phase.agents_A]
        completion_A = [agent.completion_tokens for agent in phase.agents_A]
        axes.bar(places, prompt_A, color=_BLUE, width=0.7, label="prompt")
        axes.bar(places, completion_A, bottom=prompt_A, color=_ORANGE, width=0.7, label="completion")
        axes.set_ylabel("tokens")
        axes.set_title(f"Tokens by agent, {phase.phase} phase")
        axes.yaxis.set_major_formatter("{x:,.0f}")
    _agent_axis(axes_P[-1, 0], summary)
    axes_P[0, 0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


PLOTS: tuple[tuple[str, str, Callable[[Summary, PhaseSummary], Any]], ...] = (
    ("accuracy", "Accuracy by type, with 95 % intervals", accuracy),
    ("throughput", "Throughput over time", throughput),
    ("final-answers", "Final answers by agent and type", final_answers),
    ("queues", "Queue lengths over time", queues),
    ("forwards-and-splits", "Forwards and splits by agent", forwards_and_splits),
    ("tokens", "Tokens by agent and phase", tokens),
)
"""(file name, caption, function) in the order of a report."""


def _figure(height: float) -> tuple[Any, Any]:
    figure, axes = plt.subplots(figsize=(8, height), layout="constrained")
    return figure, axes


def _colours(agents: int) -> list[Any]:
    """One for each agent: distinct for a few, along a scale for many."""
    if agents <= _FEW:
        return [mpl.colormaps["tab10"](agent) for agent in range(agents)]
    return [mpl.colormaps["viridis"](0.95 * agent / (agents - 1)) for agent in range(agents)]


def _agent_key(figure: Any, axes: Any, summary: Summary, colours: Sequence[Any]) -> None:
    """A legend for a few agents, a colour bar over their numbers for many."""
    if len(colours) <= _FEW:
        patches = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in colours]
        names = [agent.name for agent in summary.agents_A]
        axes.legend(patches, names, loc="upper left", bbox_to_anchor=(1.0, 1.0), title="agent")
        return
    scale = mpl.cm.ScalarMappable(
        norm=mpl.colors.Normalize(0, (len(colours) - 1) / 0.95), cmap=mpl.colormaps["viridis"]
    )
    bar = figure.colorbar(scale, ax=axes, boundaries=range(len(colours) + 1))
    bar.set_label("agent (by id)")


def _agent_axis(axes: Any, summary: Summary) -> None:
    names = [agent.name for agent in summary.agents_A]
    upright = len(names) > 8 or max(len(name) for name in names) > 10
    axes.set_xticks(
        range(len(names)), names, rotation=90 if upright else 0, fontsize=6 if len(names) > 30 else 8
    )
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.grid(visible=False, axis="x")
