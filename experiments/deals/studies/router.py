"""Our router, part by part, against the paper's rule and the linear programme's bound."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from actors.routing.scores import Floats
from experiments.deals.studies.arms import DEFAULT_WEIGHT, Arm, deals, mechanism, router
from experiments.deals.studies.arrivals import capacity_of
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, grid, point_values
from experiments.deals.studies.tables import FEW_SEEDS, accuracy, numbers, percent, plain
from experiments.grid import NOTHING, Grid
from experiments.stats import frontier_gain

RATE_PER_S = 3.0
"""Poisson arrivals on the shipped pool, 0.77 of its capacity."""
LOAD = 0.77
"""Of any other pool."""
WEIGHTS = (20, 40, 80)
FRONTIER = (10, *WEIGHTS)
"""V of our router: at 10 its heaviest share is below the paper's rule at 20."""
TRUE, ESTIMATED = "true rates", "estimated rates"
ABLATION_SEEDS = 20
GAINS = {
    "points of accuracy": ("accuracy", 100.0),
    "points of true rate": ("routed_accuracy", 100.0),
    "tasks/min": ("throughput_per_min", 1.0),
    "latency s": ("latency_s", 1.0),
    "p95 s": ("latency_p95_s", 1.0),
}
"""Column -> the figure of a cell that is compared, and its factor."""
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
        *(_few(deals(weight)) for weight in WEIGHTS),
        router(online=False),
        *(_few(router(weight=weight, online=False)) for weight in WEIGHTS if weight != DEFAULT_WEIGHT),
        *(_few(router(f"ours, {name}", online=False, parts=parts)) for name, parts in PARTS.items()),
    ]
    ours = router()
    learned = [
        *rivals(),
        *(router(weight=weight) for weight in FRONTIER),
        *(_few(router(weight=weight, online=False)) for weight in FRONTIER),
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


def rivals() -> list[Arm]:
    """The paper's rule, then with parts of ours that any rule could have."""
    found = []
    for weight in WEIGHTS[:2]:
        plain = deals(weight)
        warm = (*plain.changes, *mechanism(warmup_policy="least_tried"))
        found += [
            plain,
            _few(replace(plain, name=f"{plain.name}, our warm-up", changes=warm)),
            _few(_online(plain)),
            _few(_online(replace(plain, name=f"{plain.name}, our warm-up", changes=warm))),
        ]
    return [*found, _few(deals(WEIGHTS[2]))]


def _is_online(arm: Arm) -> bool:
    return "online=true" in arm.changes


def _few(arm: Arm) -> Arm:
    return replace(arm, most_seeds=ABLATION_SEEDS)


def _online(arm: Arm) -> Arm:
    return replace(arm, name=f"{arm.name}, verdicts count", changes=(*arm.changes, "online=true"))


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


def _points(cells: Sequence[Done], seeds: Sequence[int], value: str, scale: float) -> Floats:
    by_seed = {cell.seed: cell for cell in cells}
    return np.array([(by_seed[s].number("heaviest_share"), scale * by_seed[s].number(value)) for s in seeds])


def gains(done: Sequence[Done]) -> Grid:
    """What our frontier over V has above each arm of the paper's rule, at that arm's heaviest share, by the same
    seeds. Where DEALS is given our warm-up, or verdicts as well, what is left is the routing rule's."""
    rows_of = grid([each for each in done if each.point == ESTIMATED])
    rows = []
    for online in (True, False):
        names = [router(weight=weight, online=online).name for weight in FRONTIER]
        ours = [cells for name in names if (cells := rows_of.get((ESTIMATED, name), []))]
        for arm in rivals():
            theirs = rows_of.get((ESTIMATED, arm.name), [])
            seeds = sorted(set.intersection(*({cell.seed for cell in each} for each in (*ours, theirs))))
            if len(ours) < 2 or not seeds or _is_online(arm) > online:
                continue
            compared = [*ours, theirs]
            gained = [
                _gain([_points(each, seeds, value, scale) for each in compared])
                if all(value in cell.figures for each in compared for cell in each)
                else NOTHING
                for value, scale in GAINS.values()
            ]
            share = percent([cell.number("heaviest_share") for cell in theirs if cell.seed in seeds])
            which = "verdicts count" if online else "frozen"
            rows.append((which, arm.name, share, *gained, f"{len(seeds)}"))
    return Grid(
        title="our router above the paper's rule at equal heaviest share",
        header=("ours", "above", "at heaviest %", *GAINS, "paired seeds"),
        rows=tuple(rows),
        note="true rate: of the (agent, type) pairs that tasks were routed to, free of the questions' luck; "
        f"intervals: bootstrap over the paired seeds; {NOTHING}: our frontier over V has no point at that share",
    )


def _gain(compared: Sequence[Floats]) -> str:
    """Of our frontier's points, and last those of the arm that it is compared with."""
    *ours, theirs = compared
    found = frontier_gain(np.array(ours), theirs)
    if found is None:
        return NOTHING
    few = len(theirs) < FEW_SEEDS
    return f"{found.value:+.2f}" + ("" if few else f" [{found.low:+.2f}, {found.high:+.2f}]")


def _report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    points = dict.fromkeys(each.point for each in done)
    grids = [_table(point, done) for point in points]
    if ESTIMATED in points:
        grids.append(gains(done))
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
