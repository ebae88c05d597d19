"""Several quality weights on the same agents: one warm-up, one start of the engines, one row each."""

from collections import Counter
from collections.abc import Sequence

from experiments.grid import NOTHING, Grid, number, percent, share
from experiments.record import RunFolder
from experiments.specialists.oracle import oracle_line
from experiments.summary import Summary, summarise


def arm_grids(folders: Sequence[RunFolder]) -> list[Grid]:
    """The arms side by side, and who answered what in each."""
    summaries = [summarise(folder) for folder in folders]
    names = [agent.name for agent in summaries[0].agents_A]
    rows = [
        (
            f"V={summary.quality_weight:g}",
            percent(summary.test.accuracy),
            number(summary.test.throughput_per_min),
            *(share(count, summary.test.finished) for count in _finals(folder, len(names))),
        )
        for folder, summary in zip(folders, summaries, strict=True)
    ]
    table = Grid(
        title="the same test tasks at each V",
        header=("", "accuracy", "answers/min", *(f"by {name}" for name in names)),
        rows=tuple(rows),
        note=oracle_line(folders[0].settings(), folders[0].tasks()) or "",
    )
    return [
        table,
        *(_who(folder, summary, names) for folder, summary in zip(folders, summaries, strict=True)),
    ]


def _finals(folder: RunFolder, agents: int) -> list[int]:
    counts = Counter(
        result.finished.outcome.finisher for result in folder.results() if result.phase == "test"
    )
    return [counts[agent] for agent in range(agents)]  # type: ignore[index]


def _who(folder: RunFolder, summary: Summary, names: Sequence[str]) -> Grid:
    """Final answers by type and agent."""
    counts: Counter[tuple[str, int]] = Counter()
    right: Counter[str] = Counter()
    for result in folder.results():
        if result.phase == "test":
            outcome = result.finished.outcome
            counts[outcome.task.task_type, outcome.finisher] += 1
            right[outcome.task.task_type] += result.correct
    types = dict.fromkeys(task.row.task_type for task in folder.tasks() if task.phase == "test")
    rows = []
    for name in types:
        total = sum(counts[name, agent] for agent in range(len(names)))
        rows.append(
            (
                name,
                f"{100 * right[name] / total:.0f} %" if total else NOTHING,
                *(share(counts[name, agent], total) for agent in range(len(names))),
            )
        )
    return Grid(
        title=f"V={summary.quality_weight:g}: who answered which type",
        header=("type", "accuracy", *names),
        rows=tuple(rows),
    )
