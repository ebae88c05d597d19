"""Throughput against AgentNet, sequential as published and concurrent on the same slots, and what bounds the ratio."""

from collections.abc import Sequence

from experiments.deals.studies.arms import Arm, deals, mechanism, router
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.pools import pool
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, grid, point_values
from experiments.deals.studies.tables import arm_table, numbers, paired, plain
from experiments.grid import Grid
from experiments.stats import mean_interval

POOL = "simulated-measured-x3"
SEQUENTIAL, CONCURRENT = "AgentNet sequential", "AgentNet concurrent"
AGENTNET = (*mechanism(policy="keep"), "ingress=best_ability", "pool.settings.executor.kind=agentnet")


def arms() -> list[Arm]:
    return [
        Arm(name=SEQUENTIAL, changes=(*AGENTNET, "arrivals.kind=closed")),
        Arm(name=CONCURRENT, changes=AGENTNET),
        deals(0),
        deals(20),
        deals(80),
        router(online=False),
    ]


def ceiling(raw: dict[str, object]) -> float:
    """Slots over the slowdown of calls beside each other: the most that concurrency alone can give."""
    agents = raw["agents"]
    assert isinstance(agents, list)
    slots = [agent.get("slots", 9) for agent in agents]
    exponents = [agent["backend"]["options"].get("slowdown_exponent", 0.0) for agent in agents]
    return float(sum(n / n**exponent for n, exponent in zip(slots, exponents, strict=True)))


def _cells(settings: StudySettings) -> list[Cell]:
    values = point_values(pool(POOL), settings)
    return [
        Cell(arm=arm, point="", seed=seed, values=values) for arm in arms() for seed in settings.seed_range()
    ]


def ratio_grid(done: Sequence[Done], most: float) -> Grid:
    """Each arm's tasks per minute over both AgentNets', and the share of the ceiling that its ratio to the
    sequential one reaches. The ceiling counts calls: where an arm makes fewer of them for a task, or more, its own
    ceiling is higher or lower by that."""
    by_arm = {arm: cells for (_, arm), cells in grid(done).items()}
    slow, fast = by_arm.get(SEQUENTIAL, []), by_arm.get(CONCURRENT, [])
    rows = []
    for arm, cells in by_arm.items():
        if arm == SEQUENTIAL:
            continue
        base, rates = paired(cells, slow, "throughput_per_min")
        ratios = [rate / each for each, rate in zip(base, rates, strict=True)]
        base_calls, calls = paired(cells, slow, "calls")
        own = [most * b / a for b, a in zip(base_calls, calls, strict=True)]
        reached = [ratio / bound for ratio, bound in zip(ratios, own, strict=True)]
        other, same = paired(cells, fast, "throughput_per_min")
        rows.append(
            (
                arm,
                plain(ratios),
                plain([rate / each for each, rate in zip(other, same, strict=True)], 2) if other else "",
                plain(own),
                f"{100 * mean_interval(reached).value:.0f} %",
                plain(numbers(cells, "calls"), 2),
            )
        )
    header = ("arm", "times sequential", "times concurrent", "ceiling", "of it", "calls a task")
    return Grid(title="throughput against AgentNet", header=header, rows=tuple(rows))


def _report(_: StudySettings, done: Sequence[Done]) -> StudyReport:
    most = ceiling(pool(POOL))
    return StudyReport(
        grids=[ratio_grid(done, most), arm_table("accuracy and throughput", done, SEQUENTIAL)],
        notes=[
            f"3 agents of 9 slots; times of calls as measured on one engine (see {POOL}.yaml), so that 27 slots are "
            f"worth {most:.1f} single ones: the ceiling of what concurrency alone can give. All tasks arrive at once.",
            "The paper: DEALS has 4.7 to 22.7 times the throughput of AgentNet, which works on one task at a time.",
        ],
    )


THROUGHPUT = Study(
    name="deals-throughput",
    summary="against AgentNet, sequential and on the same slots: ratio, ceiling, and accuracy beside",
    defaults={"simulated": {"seeds": 20, "warmup": 120, "test": 1080}},
    cells=_cells,
    report=_report,
)
