"""Tables of a study: one row an arm, means over seeds with bootstrap intervals, differences paired by seed."""

from collections.abc import Sequence

from experiments.deals.studies.study import Done, grid
from experiments.grid import Grid
from experiments.stats import effect_size, mean_interval, paired_difference


def percent(values: Sequence[float]) -> str:
    """Mean of shares with its 95 % interval, in per cent."""
    found = mean_interval([100 * value for value in values])
    return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"


def plain(values: Sequence[float], digits: int = 1) -> str:
    """Mean of numbers with its 95 % interval."""
    found = mean_interval(values)
    return f"{found.value:,.{digits}f} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"


def points(a: Sequence[float], b: Sequence[float]) -> str:
    """Mean of b - a in points with its 95 % interval, and the effect size."""
    found = paired_difference([100 * value for value in a], [100 * value for value in b])
    size = effect_size(a, b)
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]" + (
        "" if size is None else f" d_z {size:+.1f}"
    )


def numbers(cells: Sequence[Done], name: str) -> list[float]:
    """One figure by seed."""
    return [cell.number(name) for cell in cells]


def paired(cells: Sequence[Done], others: Sequence[Done], name: str) -> tuple[list[float], list[float]]:
    """One figure of both arms, for the seeds that both have."""
    theirs = {other.seed: other.number(name) for other in others}
    both = [cell for cell in cells if cell.seed in theirs]
    return [theirs[cell.seed] for cell in both], numbers(both, name)


def arm_table(title: str, done: Sequence[Done], baseline: str, point: str = "") -> Grid:
    """Every arm of one point; differences are to the arm `baseline`."""
    rows = grid([each for each in done if each.point == point])
    base = rows.get((point, baseline), [])
    head = [
        "arm",
        "accuracy %",
        f"over {baseline}",
        "heaviest %",
        "tasks/min",
        "latency s",
        "p95 s",
        "calls",
        "busy %",
    ]
    body = []
    for (_, arm), cells in rows.items():
        a, b = paired(cells, base, "accuracy")
        body.append(
            [
                arm,
                percent(numbers(cells, "accuracy")),
                points(a, b) if a and arm != baseline else "",
                percent(numbers(cells, "heaviest_share")),
                plain(numbers(cells, "throughput_per_min"), 0),
                plain(numbers(cells, "latency_s")),
                plain(numbers(cells, "latency_p95_s")),
                plain(numbers(cells, "calls")),
                percent(numbers(cells, "utilisation")),
            ]
        )
    return Grid(title=title, header=tuple(head), rows=tuple(map(tuple, body)))
