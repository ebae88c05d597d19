"""Throughput against AgentNet, sequential as published and concurrent on the same slots, and what bounds the ratio."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.deals.studies.arms import CONCURRENT, SEQUENTIAL, Arm, agentnet, deals, router
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.pools import FORWARD_RATE, routing_by_chance
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, grid, point_values
from experiments.deals.studies.tables import arm_table, numbers, paired, plain
from experiments.grid import Grid
from experiments.stats import mean_interval

SPLIT_RATE = 0.3
SPLITTING = f"models that split {100 * SPLIT_RATE:.0f} % of the time, where it does not pay"


def arms() -> list[Arm]:
    return [*agentnet(), deals(0), deals(20), deals(80), router(online=False)]


def splitting_arms() -> list[Arm]:
    """DEALS, whose models may split at will, and the same where a split must have paid."""
    return [
        replace(arm, name=arm.name + name, changes=(*arm.changes, *changes))
        for arm in (deals(20), router(online=False))
        for name, changes in (
            ("", ()),
            (", splits must pay", ("pool.settings.executor.splits_must_pay=true",)),
        )
    ]


def ceiling(raw: Mapping[str, Any]) -> float:
    """Slots over the slowdown of calls beside each other: the most that concurrency alone can give."""
    slots = [agent.get("slots", 9) for agent in raw["agents"]]
    exponents = [agent["backend"].get("options", {}).get("slowdown_exponent", 0.0) for agent in raw["agents"]]
    return float(sum(n / n**exponent for n, exponent in zip(slots, exponents, strict=True)))


def measured_ceiling(raw: Mapping[str, Any], alone: Sequence[Done], beside: Sequence[Done]) -> float:
    """The same of real engines: all slots, each call as slow as it was beside the others."""
    slots = sum(agent.get("slots", 9) for agent in raw["agents"])
    alone_s, beside_s = (sum(numbers(cells, "call_s")) / len(cells) for cells in (alone, beside))
    return float(slots * alone_s / beside_s)


def _deliberate(settings: StudySettings) -> dict[str, Any]:
    """The pool with the paper's four calls a step, so that both sides pay alike for a task."""
    raw = routing_by_chance(settings.pools[0])
    own = raw.get("settings", {})
    executor = own.get("executor", {}) | {"kind": "deliberate"}
    return raw | {"settings": own | {"executor": executor}}


def _cells(settings: StudySettings) -> list[Cell]:
    raw = _deliberate(settings)
    points = {"": (raw, arms())}
    if settings.backend == "simulated":
        points[SPLITTING] = (_splitting(raw), splitting_arms())
    return [
        Cell(arm=arm, point=point, seed=seed, values=point_values(of_point, settings))
        for point, (of_point, rows) in points.items()
        for arm in rows
        for seed in settings.seed_range()
    ]


def _splitting(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The pool with models that split now and then. It cannot help there: success is drawn once a task, and a part
    that the check takes for the whole is a wrong answer."""
    agents = []
    for agent in raw["agents"]:
        options = agent["backend"]["options"] | {"split_rate": SPLIT_RATE}
        agents.append(agent | {"backend": agent["backend"] | {"options": options}})
    return {**raw, "agents": agents}


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


def _report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    raw = settings.pools[0]
    splitting = [each for each in done if each.point]
    done = [each for each in done if not each.point]
    by_arm = {arm: cells for (_, arm), cells in grid(done).items()}
    slots = sum(agent.get("slots", 9) for agent in raw["agents"])
    if settings.backend != "vllm":
        most = ceiling(raw)
    elif SEQUENTIAL in by_arm and deals(0).name in by_arm:
        most = measured_ceiling(raw, by_arm[SEQUENTIAL], by_arm[deals(0).name])
    else:
        return StudyReport(grids=[arm_table("accuracy and throughput", done, SEQUENTIAL)])
    how = {
        "simulated": f"times of calls as in {raw['name']}.yaml, where AgentNet's router forwards by chance",
        "replay": f"times of calls are settings; AgentNet's router forwards by chance ({FORWARD_RATE:g})",
        "vllm": "calls slow each other down as measured in this study (DEALS V=0 beside AgentNet sequential)",
    }[settings.backend]
    grids = [ratio_grid(done, most), arm_table("accuracy and throughput", done, SEQUENTIAL)]
    if splitting:
        grids.append(arm_table(SPLITTING, splitting, splitting_arms()[0].name, SPLITTING))
    return StudyReport(
        grids=grids,
        notes=[
            f"{len(raw['agents'])} agents, {slots} slots; {how}, so that the slots are worth {most:.1f} single ones: "
            "the ceiling of what concurrency alone can give; an arm's own is higher where it makes fewer calls a task "
            "than AgentNet sequential. All tasks arrive at once.",
            "The paper: DEALS has 4.7 to 22.7 times the throughput of AgentNet, which works on one task at a time.",
        ],
    )


THROUGHPUT = Study(
    name="deals-throughput",
    summary="against AgentNet, sequential and on the same slots: ratio, ceiling, and accuracy beside",
    defaults={
        "simulated": {"seeds": 20, "warmup": 120, "test": 1080},
        "replay": {"seeds": 20, "warmup": 140, "test": 700},
        "vllm": {"seeds": 1, "warmup": 12, "test": 36},
    },
    pools={
        "simulated": ("simulated-measured-x3",),
        "replay": ("recorded-x3",),
        "vllm": ("smollm2-x3",),
    },
    cells=_cells,
    report=_report,
)
