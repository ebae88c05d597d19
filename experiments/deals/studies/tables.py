"""Tables of a study: one row an arm, means over seeds with their intervals, differences paired by seed."""

from collections.abc import Sequence

from experiments.deals.studies.study import Done, grid
from experiments.grid import NOTHING, Grid
from experiments.line_plots import Line, LinePlot
from experiments.stats import Estimate, effect_size, mean_interval, wilson_interval

FEW_SEEDS = 5
"""Below this an interval over seeds is so wide that it says nothing."""


def percent(values: Sequence[float]) -> str:
    """Mean of shares with its 95 % interval, in per cent."""
    return plain([100 * value for value in values])


def plain(values: Sequence[float], digits: int = 1) -> str:
    """Mean of numbers with its 95 % interval; of a few seeds the mean alone."""
    if len(values) < FEW_SEEDS:
        return f"{sum(values) / len(values):,.{digits}f}"
    found = mean_interval(values)
    return f"{found.value:,.{digits}f} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"


def shown_mean(values: Sequence[float]) -> Estimate:
    """For a plot: of a few seeds the interval is empty."""
    if len(values) >= FEW_SEEDS:
        return mean_interval(values)
    mean = sum(values) / len(values)
    return Estimate(value=mean, low=mean, high=mean)


def points(a: Sequence[float], b: Sequence[float]) -> str:
    """Mean of b - a in points with its 95 % interval; of a few seeds the mean alone."""
    if len(a) < FEW_SEEDS:
        return f"{100 * (sum(b) - sum(a)) / len(a):+.1f}"
    found = mean_interval([100 * (ours - theirs) for theirs, ours in zip(a, b, strict=True)])
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"


def size(a: Sequence[float], b: Sequence[float]) -> str:
    """Cohen's d_z of the pairs; of a few seeds, or where all differ alike, there is none."""
    found = effect_size(a, b) if len(a) >= FEW_SEEDS else None
    return NOTHING if found is None else f"{found:+.1f}"


def accuracy(cells: Sequence[Done]) -> str:
    """In per cent, over seeds; of a few seeds with the score interval over all their tasks."""
    values = numbers(cells, "accuracy")
    if len(cells) >= FEW_SEEDS or any("tasks" not in cell.figures for cell in cells):
        return percent(values)
    tasks = numbers(cells, "tasks")
    right = round(sum(value * count for value, count in zip(values, tasks, strict=True)))
    low, high = wilson_interval(right, round(sum(tasks)))
    return f"{100 * right / sum(tasks):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def numbers(cells: Sequence[Done], name: str) -> list[float]:
    """One figure by seed."""
    return [cell.number(name) for cell in cells]


def paired(cells: Sequence[Done], others: Sequence[Done], name: str) -> tuple[list[float], list[float]]:
    """One figure of both arms, for the seeds that both have."""
    theirs = {other.seed: other.number(name) for other in others}
    both = [cell for cell in cells if cell.seed in theirs]
    return [theirs[cell.seed] for cell in both], numbers(both, name)


def arm_table(title: str, done: Sequence[Done], baseline: str, point: str = "") -> Grid:
    """Every arm of one point; differences are to the arm `baseline`. Where true rates are known, beside each arm the
    linear programme's best at the same heaviest share, and below all arms its ends."""
    rows = grid([each for each in done if each.point == point])
    base = rows.get((point, baseline), [])
    bounded = [cells for cells in rows.values() if all("bound" in cell.figures for cell in cells)]
    head = ["arm", "accuracy %", *(["bound %"] if bounded else []), f"over {baseline}", "d_z", "heaviest %"]
    head += ["tasks/min", "latency s", "p95 s", "calls", "busy %"]
    body = []
    for (_, arm), cells in rows.items():
        a, b = paired(cells, base, "accuracy")
        bound = [f"{_mean_percent(cells, 'bound')}" if cells in bounded else NOTHING] if bounded else []
        body.append(
            [
                arm,
                accuracy(cells),
                *bound,
                points(a, b) if a and arm != baseline else "",
                size(a, b) if a and arm != baseline else "",
                percent(numbers(cells, "heaviest_share")),
                plain(numbers(cells, "throughput_per_min"), 0),
                plain(numbers(cells, "latency_s")),
                plain(numbers(cells, "latency_p95_s")),
                plain(numbers(cells, "calls")),
                percent(numbers(cells, "utilisation")),
            ]
        )
    body += [[*row, *[""] * (len(head) - len(row))] for row in _ends(bounded)]
    note = "d_z: effect size of the paired difference, 0.8 is called large"
    if bounded:
        note += (
            "; bound: the linear programme's best accuracy at the arm's heaviest share, expected over all rows (the "
            "drawn tasks may be harder or easier: compare arms with each other, and expected accuracies in the plot)"
        )
    brief = frozenset(range(len(head) - 6, len(head)))
    return Grid(title=title, header=tuple(head), rows=tuple(map(tuple, body)), note=note, brief=brief)


def overview(title: str, done: Sequence[Done], *, arms_down: bool) -> Grid:
    """Accuracy and mean latency of every arm at every point, in one table: points or arms as its rows."""
    cells_of = grid(done)
    points_, arms = (list(dict.fromkeys(key[axis] for key in cells_of)) for axis in (0, 1))
    rows, columns = (arms, points_) if arms_down else (points_, arms)

    def shown(row: str, column: str) -> str:
        cells = cells_of.get((column, row) if arms_down else (row, column), [])
        if not cells:
            return NOTHING
        latency_s = sum(numbers(cells, "latency_s")) / len(cells)
        return f"{_mean_percent(cells, 'accuracy')} / {latency_s:.1f} s"

    return Grid(
        title=title,
        header=("arm" if arms_down else "", *columns),
        rows=tuple((row, *(shown(row, column) for column in columns)) for row in rows),
        note="accuracy % / mean latency; intervals, shares and paired differences are in the report",
    )


def bound_line(done: Sequence[Done], point: str) -> Line | None:
    """The linear programme's accuracy against the heaviest share, in per cent; None where rates are not known."""
    curves = [
        cell.numbers("bound_curve") for cell in done if cell.point == point and "bound_curve" in cell.figures
    ]
    if not curves:
        return None
    agents = next(len(cell.numbers("shares")) for cell in done if cell.point == point)
    count = len(curves[0])
    y_P = [100 * sum(values) / len(curves) for values in zip(*curves, strict=True)]
    x_P = [100 * (1 / agents + (1 - 1 / agents) * p / (count - 1)) for p in range(count)]
    return Line(label="linear programme (bound)", x_P=x_P, y_P=y_P, low_P=y_P, high_P=y_P)


def share_plot(title: str, name: str, done: Sequence[Done], point: str) -> LinePlot:
    """Each arm's accuracy at its heaviest share, under the bound; DEALS as one line over V. Votes are left out: no
    bound on the choice of one agent binds them."""
    rows = {arm: cells for (_, arm), cells in grid([each for each in done if each.point == point]).items()}
    swept = {arm: cells for arm, cells in rows.items() if arm.startswith("DEALS V=")}
    others = {arm: cells for arm, cells in rows.items() if arm not in swept and not _is_vote(cells)}
    lines = [bound] if (bound := bound_line(done, point)) is not None else []
    if swept:
        weights = [arm.removeprefix("DEALS V=") for arm in swept]
        lines.append(_at_shares(f"DEALS, V={weights[0]} to {weights[-1]}", list(swept.values()), joined=True))
    lines += [_at_shares(arm, [cells], joined=False) for arm, cells in others.items()]
    label = "expected accuracy % (mean true rate of agent and type)" if bound is not None else "accuracy %"
    return LinePlot(name=name, title=title, x_label="heaviest agent's share, %", y_label=label, lines=lines)


def _is_vote(cells: Sequence[Done]) -> bool:
    return any(label in cells[0].arm for label in ("vote of", "self-consistency"))


def _at_shares(label: str, cells_P: Sequence[Sequence[Done]], *, joined: bool) -> Line:
    # Where the bound is known the points are expectations as well: the luck of the drawn tasks would part the two.
    known = all("routed_accuracy" in cell.figures for cells in cells_P for cell in cells)
    figure = "routed_accuracy" if known else "accuracy"
    found = [shown_mean([100 * value for value in numbers(cells, figure)]) for cells in cells_P]
    return Line(
        label=label,
        x_P=[100 * sum(numbers(cells, "heaviest_share")) / len(cells) for cells in cells_P],
        y_P=[each.value for each in found],
        low_P=[each.low for each in found],
        high_P=[each.high for each in found],
        joined=joined,
    )


def _mean_percent(cells: Sequence[Done], name: str) -> str:
    return f"{100 * sum(numbers(cells, name)) / len(cells):.1f}"


def _ends(bounded: Sequence[Sequence[Done]]) -> list[list[str]]:
    """The linear programme at even shares and without a cap."""
    cells = bounded[0] if bounded else []
    rows = []
    if cells and all("bound_curve" in cell.figures for cell in cells):
        # Cells of before the programme kept to it could have an even share a rounding above no cap.
        even = [min(cell.numbers("bound_curve")[0], cell.number("oracle")) for cell in cells]
        share = 100 / len(cells[0].numbers("shares"))
        rows.append(["bound, even shares", "", f"{100 * sum(even) / len(even):.1f}", "", "", f"{share:.1f}"])
    if cells:
        rows.append(["bound, no cap", "", _mean_percent(cells, "oracle")])
    return rows
