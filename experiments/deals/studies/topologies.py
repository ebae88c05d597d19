"""Graphs of agents: the paper ran complete graphs; chain, ring and sparse ones are its future work."""

from collections.abc import Sequence
from typing import Any

from experiments.deals.studies.arms import deals, router
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.pools import pool, repeated
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, point_values
from experiments.deals.studies.tables import arm_table

POOL = {"simulated": "simulated-unlike-x3", "replay": "recorded-x3"}
SMALL: dict[str, dict[str, Any]] = {
    "complete": {"kind": "complete"},
    "chain": {"kind": "chain"},
    "ring": {"kind": "ring"},
    "star": {"kind": "star"},
    "4-regular": {"kind": "k_regular", "degree": 4},
    "small world": {"kind": "small_world", "degree": 4, "probability": 0.2},
    "Erdos-Renyi": {"kind": "erdos_renyi", "probability": 0.3},
}
TASKS_PER_AGENT = 40
LOAD_PER_AGENT_S = {"simulated": 3.6, "replay": 0.9}
"""Arrivals per agent and second: about seven tenths of what its slots can serve."""


def _cells(settings: StudySettings) -> list[Cell]:
    base = pool(POOL[settings.backend])
    grid = [(f"{name}, {size} agents", size, graph) for size in (3, 12, 30) for name, graph in SMALL.items()]
    grid += [
        (f"{name}, {size} agents", size, graph)
        for size in (100, 1000)
        for name, graph in (
            ("ring", SMALL["ring"]),
            ("8-regular", {"kind": "k_regular", "degree": 8}),
            ("small world", {"kind": "small_world", "degree": 8, "probability": 0.2}),
        )
    ]
    cells = []
    for point, size, graph in grid:
        if size == 3 and graph["kind"] not in {"complete", "chain", "star"}:
            continue  # the same graphs again
        raw = repeated(base, size) | {"topology": graph}
        tasks = (
            TASKS_PER_AGENT * size if settings.backend == "simulated" else min(TASKS_PER_AGENT * size, 1500)
        )
        values = point_values(raw, settings) | {
            "warmup": tasks,
            "test": tasks,
            "arrivals": {"kind": "poisson", "rate_per_s": LOAD_PER_AGENT_S[settings.backend] * size},
        }
        seeds = settings.seed_range() if size < 100 else settings.seed_range()[: 5 if size == 100 else 2]
        cells += [
            Cell(arm=arm, point=point, seed=seed, values=values)
            for arm in (deals(0), deals(20), router(weight=20, online=False))
            for seed in seeds
        ]
    return cells


def _report(_: StudySettings, done: Sequence[Done]) -> StudyReport:
    points = dict.fromkeys(each.point for each in done)
    return StudyReport(
        grids=[arm_table(point, done, "DEALS V=0", point) for point in points],
        notes=[
            f"Poisson arrivals at about 0.7 of capacity, {TASKS_PER_AGENT} warm-up and test tasks an agent; the pool's "
            "three kinds of agents in turn along the graph. The paper ran complete graphs only.",
        ],
    )


TOPOLOGIES = Study(
    name="deals-topologies",
    summary="complete, chain, ring, star, regular, small-world and random graphs of 3 to 1000 agents",
    defaults={"simulated": {"seeds": 20, "warmup": 0, "test": 1}},
    cells=_cells,
    report=_report,
)
