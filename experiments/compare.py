"""Two runs side by side, paired by test task: what differs in settings, and what came of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from experiments.grid import NOTHING, Grid, share, signed
from experiments.phase_summary import PhaseSummary
from experiments.record import Result, RunFolder, StreamTask
from experiments.stats import Estimate, paired_difference
from experiments.summary import Summary, figure_rows, label_rows, summarise

SHOWN_SETTINGS = 40
"""Settings that differ are listed up to so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Run b against run a. Differences are b minus a, over the test tasks that both have finished."""

    a: Summary
    b: Summary
    warnings: tuple[str, ...]
    """What makes the comparison doubtful."""
    settings: tuple[tuple[str, str, str], ...]
    """(dotted name, in a, in b) of what differs."""
    common: int
    """Test tasks that both have finished."""
    accuracy: Estimate | None
    """Difference as a share (0.1: ten percentage points); None without a common task."""
    latency_s: Estimate | None
    """Mean difference over the common tasks that both answered."""
    only_a_right: int
    only_b_right: int
    throughput_ratio: float | None
    """b over a."""


def compare(folder_a: RunFolder, folder_b: RunFolder) -> list[RenderableType]:
    """The comparison, to be printed: warnings first."""
    return comparison_tables(compared(folder_a, folder_b))


def compared(folder_a: RunFolder, folder_b: RunFolder) -> Comparison:
    """Reads both folders; works for unfinished runs, with a warning."""
    a, b = summarise(folder_a), summarise(folder_b)
    results_a, results_b = _test_results(folder_a), _test_results(folder_b)
    common = [task_id for task_id in results_a if task_id in results_b]
    pairs = [(results_a[task_id], results_b[task_id]) for task_id in common]
    answered = [pair for pair in pairs if all(r.finished.outcome.error is None for r in pair)]
    rate_a, rate_b = a.test.throughput_per_min, b.test.throughput_per_min
    return Comparison(
        a=a,
        b=b,
        warnings=tuple(_warnings(a, b, folder_a.tasks(), folder_b.tasks())),
        settings=tuple(_different(_flat(folder_a), _flat(folder_b))),
        common=len(common),
        accuracy=paired_difference([x.correct for x, _ in pairs], [y.correct for _, y in pairs])
        if pairs
        else None,
        latency_s=paired_difference(
            [x.finished.latency_s for x, _ in answered], [y.finished.latency_s for _, y in answered]
        )
        if answered
        else None,
        only_a_right=sum(x.correct and not y.correct for x, y in pairs),
        only_b_right=sum(y.correct and not x.correct for x, y in pairs),
        throughput_ratio=rate_b / rate_a if rate_a and rate_b is not None else None,
    )


def comparison_tables(comparison: Comparison) -> list[RenderableType]:
    warnings = [Text(f"warning: {warning}", style="yellow") for warning in comparison.warnings]
    grids = [difference_grid(comparison), side_by_side_grid(comparison)]
    if _names(comparison.a) == _names(comparison.b):
        grids.append(shares_grid(comparison))
    grids.append(settings_grid(comparison))
    return [*warnings, *(grid.rich() for grid in grids)]


def difference_grid(comparison: Comparison) -> Grid:
    """The figures that the comparison is made for."""
    accuracy, latency, ratio = comparison.accuracy, comparison.latency_s, comparison.throughput_ratio
    return Grid(
        title=f"{comparison.b.run_id} against {comparison.a.run_id}, test phase",
        header=("", "B - A"),
        rows=(
            ("accuracy (points) [95 %]", NOTHING if accuracy is None else signed(accuracy, scale=100)),
            ("right only in A / only in B", f"{comparison.only_a_right} / {comparison.only_b_right}"),
            ("mean latency (s) [95 %]", NOTHING if latency is None else signed(latency, digits=2)),
            ("throughput, B / A", NOTHING if ratio is None else f"{ratio:.2f} ×"),
        ),
        note=f"paired over the {comparison.common} test tasks that both have finished; bootstrap intervals",
    )


def side_by_side_grid(comparison: Comparison) -> Grid:
    """Labels and test figures of both runs."""
    a, b = comparison.a, comparison.b
    labels = zip(label_rows(a), label_rows(b), strict=True)
    figures = zip(figure_rows(a.test), figure_rows(b.test), strict=True)
    return Grid(
        title="Side by side, test phase",
        header=("", f"A: {a.run_id}", f"B: {b.run_id}"),
        rows=tuple((name, value_a, value_b) for (name, value_a), (_, value_b) in (*labels, *figures)),
        note="\n".join(dict.fromkeys((*a.notes, *b.notes))),
    )


def shares_grid(comparison: Comparison) -> Grid:
    """Final answers of each agent in both runs."""
    test_a, test_b = comparison.a.test, comparison.b.test
    return Grid(
        title="Final answers by agent",
        header=("agent", "A", "B", "difference (points)"),
        rows=tuple(
            (label.name, _share(test_a, agent), _share(test_b, agent), _points(test_a, test_b, agent))
            for agent, label in enumerate(comparison.a.agents_A)
        ),
    )


def settings_grid(comparison: Comparison) -> Grid:
    left_out = len(comparison.settings) - SHOWN_SETTINGS
    return Grid(
        title="Settings that differ",
        header=("setting", "A", "B"),
        rows=comparison.settings[:SHOWN_SETTINGS] or (("none", "", ""),),
        note=f"and {left_out} more" if left_out > 0 else "",
    )


def _names(summary: Summary) -> list[str]:
    return [agent.name for agent in summary.agents_A]


def _share(phase: PhaseSummary, agent: int) -> str:
    return share(phase.agents_A[agent].final_answers, phase.answered)


def _points(a: PhaseSummary, b: PhaseSummary, agent: int) -> str:
    if not (a.answered and b.answered):
        return NOTHING
    share_a = a.agents_A[agent].final_answers / a.answered
    return f"{100 * (b.agents_A[agent].final_answers / b.answered - share_a):+.1f}"


def _test_results(folder: RunFolder) -> dict[str, Result]:
    return {r.finished.outcome.task.task_id: r for r in folder.results() if r.phase == "test"}


def _warnings(a: Summary, b: Summary, tasks_a: list[StreamTask], tasks_b: list[StreamTask]) -> Iterator[str]:
    for phase in ("test", "warmup"):
        stream_a, stream_b = ({t.row.task_id: t for t in ts if t.phase == phase} for ts in (tasks_a, tasks_b))
        if stream_a.keys() != stream_b.keys():
            common = len(stream_a.keys() & stream_b.keys())
            yield (
                f"the {phase} streams differ: {common} tasks are in both, of {len(stream_a)} and {len(stream_b)}"
                + (" (the differences are over common tasks only)" if phase == "test" else "")
            )
            continue
        changed = [name for name, task in stream_a.items() if task != stream_b[name]]
        if changed:
            yield (
                f"{len(changed)} {phase} tasks arrive elsewhere or at other times, or are worded otherwise "
                f"(the first: {changed[0]})"
            )
        elif list(stream_a) != list(stream_b):
            yield f"the {phase} tasks come in another order"
    for what, value_a, value_b in (
        ("backends", a.backend_label, b.backend_label),
        ("encoders", a.encoder, b.encoder),
        ("runtimes", a.runtime, b.runtime),
        ("data sets", a.data_set, b.data_set),
    ):
        if value_a != value_b:
            yield f"the {what} differ: {value_a} / {value_b}"
    for name, summary in (("A", a), ("B", b)):
        if not summary.complete:
            yield f"run {name} ({summary.run_id}) is unfinished"


def _flat(folder: RunFolder) -> dict[str, str]:
    return dict(_leaves("", folder.settings().model_dump(mode="json")))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(dotted name, value) of each setting; list items by position, as --set reaches them."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            yield from _leaves(f"{name}.{key}" if name else str(key), each)
    else:
        yield name, str(value)


def _different(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*a, *b)):
        value_a, value_b = a.get(name, NOTHING), b.get(name, NOTHING)
        if value_a != value_b:
            yield name, value_a, value_b
