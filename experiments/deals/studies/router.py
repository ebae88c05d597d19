"""Our router, part by part, against the paper's rule and the linear programme's bound."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from experiments.deals.studies.arms import DEFAULT_WEIGHT, Arm, deals, router
from experiments.deals.studies.arrivals import capacity_of
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, grid, point_values
from experiments.deals.studies.tables import accuracy, numbers, percent, plain
from experiments.grid import NOTHING, Grid
from experiments.stats import frontier_gain, mean_interval

RATE_PER_S = 3.0
"""Poisson arrivals on the shipped pool, 0.77 of its capacity."""
LOAD = 0.77
"""Of any other pool."""
WEIGHTS = (20, 40, 80)
TRUE, ESTIMATED = "true rates", "estimated rates"
ABLATION_SEEDS = 40
PARTS: dict[str, dict[str, object]] = {
    "without pull": {"pull": False},
    "routes on arrival too": {"route_on_arrival": True},
    "without counting tasks in flight": {"count_in_flight": False},
    "hand-overs hold slots": {"forwards_hold_slots": True},
    "longest queue first": {"queue_order": "longest"},
    "per-type backlog in place of drain time": {"policy": "deals"},
    "margin grows with a view's age": {"margin_per_age_s": 1.0},
    "latency target of 10 s": {"latency_target_s": 10},
}
LEARNING: dict[str, dict[str, object]] = {
    "warm-up by its own rule at V=0": {"warmup_policy": "drain_time"},
    "warm-up by the paper's rule": {"warmup_policy": "deals"},
    "upper bounds while learning": {"exploration": "upper_bound", "exploration_weight": 0.5},
    "Thompson draws while learning": {"exploration": "thompson"},
    "warm-up at V=20 by upper bounds": {
        "warmup_policy": "drain_time",
        "warmup_quality_weight": 20,
        "exploration": "upper_bound",
    },
}


def arms() -> dict[str, list[Arm]]:
    """Point -> arms."""
    known = [
        *(deals(weight) for weight in WEIGHTS),
        *(router(weight=weight, online=False) for weight in WEIGHTS),
        *(_few(router(f"ours, {name}", online=False, parts=parts)) for name, parts in PARTS.items()),
    ]
    ours = router()
    learned = [
        *(deals(weight) for weight in WEIGHTS),
        *(router(weight=weight) for weight in WEIGHTS),
        *(_few(router(weight=weight, online=False)) for weight in WEIGHTS),
        *(_few(_online(deals(weight))) for weight in (20, 40)),
        *(_few(router(f"ours, {name}", parts=parts)) for name, parts in LEARNING.items()),
        _few(
            replace(
                ours,
                name="ours, discount 0.995",
                changes=(*ours.changes, "pool.settings.quality.discount=0.995"),
            )
        ),
    ]
    return {TRUE: [replace(arm, knows_rates=True) for arm in known], ESTIMATED: learned}


def _few(arm: Arm) -> Arm:
    return replace(arm, most_seeds=ABLATION_SEEDS)


def _online(arm: Arm) -> Arm:
    return replace(arm, name=f"{arm.name}, online", changes=(*arm.changes, "online=true"))


def _cells(settings: StudySettings) -> list[Cell]:
    arrivals = {"kind": "poisson", "rate_per_s": _rate_per_s(settings)}
    values = point_values(settings.pools[0], settings, arrivals=arrivals)
    found = arms()
    if settings.backend == "vllm":  # true rates of real engines are not known; ablations are for many seeds
        found = {ESTIMATED: [arm for arm in found[ESTIMATED] if arm.most_seeds is None]}
    return [
        Cell(arm=arm, point=point, seed=seed, values=values)
        for point, of_point in found.items()
        for arm in of_point
        for seed in settings.seed_range()[: arm.most_seeds]
    ]


def _rate_per_s(settings: StudySettings) -> float:
    shipped = settings.backend == "replay" and settings.pools[0]["name"] == "recorded-x3"
    return RATE_PER_S if shipped and settings.capacity_per_s is None else LOAD * capacity_of(settings)


def gap_to_bound(cells: Sequence[Done]) -> list[float]:
    """Points below the linear programme at the run's own heaviest share, by seed."""
    return [
        100 * (bound - worth)
        for bound, worth in zip(numbers(cells, "bound"), numbers(cells, "routed_accuracy"), strict=True)
    ]


def _table(point: str, done: Sequence[Done]) -> Grid:
    rows = []
    for (_, arm), cells in grid([each for each in done if each.point == point]).items():
        bounded = all("bound" in cell.figures for cell in cells)
        rows.append(
            (
                arm,
                accuracy(cells),
                percent(numbers(cells, "routed_accuracy")) if bounded else NOTHING,
                percent(numbers(cells, "heaviest_share")),
                plain(gap_to_bound(cells), 2) if bounded else NOTHING,
                plain(numbers(cells, "throughput_per_min"), 0),
                plain(numbers(cells, "latency_s")),
                plain(numbers(cells, "latency_p95_s")),
            )
        )
    return Grid(
        title=point,
        header=("arm", "accuracy %", "routed to %", "heaviest %", "below bound", "tasks/min", "latency s", "p95 s"),
        rows=tuple(rows),
        brief=frozenset({2, 5, 6, 7}),
        note="routed to: mean true rate of (agent, type); bound: the linear programme at the same heaviest share",
    )  # fmt: skip


def _points(cells: Sequence[Done], seeds: Sequence[int]) -> list[tuple[float, float]]:
    by_seed = {cell.seed: cell for cell in cells}
    return [(by_seed[s].number("heaviest_share"), 100 * by_seed[s].number("accuracy")) for s in seeds]


def gains(done: Sequence[Done], online: bool) -> Grid:
    """Accuracy of our frontier over V above each DEALS point, at that point's heaviest share, by the same seeds."""
    rows_of = grid([each for each in done if each.point == ESTIMATED])
    ours = [rows_of.get((ESTIMATED, router(weight=weight, online=online).name), []) for weight in WEIGHTS]
    rows = []
    for weight in WEIGHTS:
        theirs = rows_of.get((ESTIMATED, deals(weight).name), [])
        cells = [*ours, theirs]
        seeds = sorted(set.intersection(*({cell.seed for cell in each} for each in cells)))
        if not seeds:
            continue
        found = frontier_gain(
            np.array([_points(each, seeds) for each in ours]), np.array(_points(theirs, seeds))
        )
        rate = mean_interval(numbers(theirs, "throughput_per_min"))
        ours_rate = mean_interval([value for each in ours for value in numbers(each, "throughput_per_min")])
        rows.append(
            (
                deals(weight).name,
                percent(numbers(theirs, "heaviest_share")),
                f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]",
                f"{rate.value:.0f}",
                f"{ours_rate.value:.0f}",
                f"{len(seeds)}",
            )
        )
    which = "verdicts of the stream count" if online else "frozen after the warm-up, as the paper"
    return Grid(
        title=f"our router above DEALS at equal heaviest share ({which})",
        header=("against", "heaviest share %", "points of accuracy", "its tasks/min", "ours", "paired seeds"),
        rows=tuple(rows),
    )


def _report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    points = dict.fromkeys(each.point for each in done)
    grids = [_table(point, done) for point in points]
    if ESTIMATED in points:
        grids += [gains(done, online=True), gains(done, online=False)]
    return StudyReport(
        grids=grids,
        notes=[
            f"Poisson arrivals of {_rate_per_s(settings):.3g}/s on pool {settings.pools[0]['name']}. "
            "With true rates agents know each type's rate from the start; with estimated rates all arms pay the same "
            "warm-up.",
            f"Our default V={DEFAULT_WEIGHT} and its parts were chosen with `--half tune`; `--half report` tests on "
            f"rows outside of it. This is half {settings.half!r}.",
        ],
    )


ROUTER = Study(
    name="deals-router",
    summary="our router, part by part, against the paper's rule and the linear programme's bound",
    defaults={
        "replay": {"seeds": 200, "warmup": 700, "test": 2000},
        "vllm": {"seeds": 1, "warmup": 100, "test": 180},
    },
    pools={"replay": ("recorded-x3",), "vllm": ("specialists",)},
    cells=_cells,
    report=_report,
    half="report",
)
