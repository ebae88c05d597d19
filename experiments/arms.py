"""Several quality weights on the same agents: one warm-up, one start of the engines, one row each."""

from collections.abc import Sequence
from dataclasses import replace

from experiments.grid import Grid, number, percent, share
from experiments.record import RunFolder
from experiments.specialists.oracle import oracle_line
from experiments.summary import Summary, summarise, type_grid


def arm_grids(folders: Sequence[RunFolder]) -> list[Grid]:
    """The arms side by side, and who answered what in each."""
    summaries = [summarise(folder) for folder in folders]
    first = summaries[0]
    oracle = oracle_line(folders[0].settings(), folders[0].tasks())
    table = Grid(
        title=f"the same test tasks of {first.data_set} at each V",
        header=(
            "",
            "accuracy",
            "answers/min",
            "forwards",
            "splits",
            *(f"by {each.name}" for each in first.agents_A),
        ),
        rows=tuple(_row(summary) for summary in summaries),
        note="; ".join(part for part in (first.backend_label, oracle) if part),
    )
    types = [
        replace(type_grid(each, each.test), title=f"V={each.quality_weight:g}: who answered which type")
        for each in summaries
    ]
    return [table, *types]


def _row(summary: Summary) -> tuple[str, ...]:
    test = summary.test
    return (
        f"V={summary.quality_weight:g}",
        percent(test.accuracy),
        number(test.throughput_per_min),
        str(test.forwards),
        str(test.splits),
        *(share(sum(answers_T), test.finished) for answers_T in test.answers_AT),
    )
