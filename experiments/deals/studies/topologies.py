"""Graphs of agents: the paper ran complete graphs; chain, ring and sparse ones are its future work."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from actors.cluster.graphs import build_topology
from actors.cluster.topology import TopologySettings
from actors.errors import SettingsError
from experiments.deals.studies.arms import deals, router
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.pools import capacity_per_s, repeated
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, point_values
from experiments.deals.studies.tables import arm_table, overview

SMALL: dict[str, dict[str, Any]] = {
    "complete": {"kind": "complete"},
    "chain": {"kind": "chain"},
    "ring": {"kind": "ring"},
    "star": {"kind": "star"},
    "4-regular": {"kind": "k_regular", "degree": 4},
    "small world": {"kind": "small_world", "degree": 4, "probability": 0.2},
    "Erdos-Renyi": {"kind": "erdos_renyi", "probability": 0.3},
}
LARGE: dict[str, dict[str, Any]] = {
    "ring": {"kind": "ring"},
    "8-regular": {"kind": "k_regular", "degree": 8},
    "small world": {"kind": "small_world", "degree": 8, "probability": 0.2},
}
RANDOM = frozenset({"k_regular", "small_world", "erdos_renyi"})
DRAWS, FURTHER = 200, 100_003
"""How often a random graph is drawn until it is connected, and how far apart the seeds of its draws are."""
TASKS_PER_AGENT = 40
LOAD = 0.7


def _graphs(settings: StudySettings) -> list[tuple[int, str, dict[str, Any]]]:
    """(agents, name, topology). Real pools stay as they are; others are repeated to each size."""
    own = len(settings.pools[0]["agents"])
    if settings.backend == "vllm":
        return [(own, name, graph) for name, graph in SMALL.items() if _differs(own, graph)]
    small = [
        (size, name, graph) for size in (3, 12, 30) for name, graph in SMALL.items() if _differs(size, graph)
    ]
    if settings.backend == "replay":
        return small
    return small + [(size, name, graph) for size in (100, 1000) for name, graph in LARGE.items()]


def _differs(agents: int, graph: Mapping[str, Any]) -> bool:
    """Of few agents some graphs are the same, or there are none."""
    if agents == 3:
        return graph["kind"] in {"complete", "chain", "star"}
    return int(graph.get("degree", 0)) < agents - 1


def _cells(settings: StudySettings) -> list[Cell]:
    base, cells = settings.pools[0], []
    for size, name, graph in _graphs(settings):
        real = settings.backend == "vllm"
        raw = base if real else repeated(base, size)
        changes: dict[str, Any] = {}
        if not real:
            changes = {
                "warmup": TASKS_PER_AGENT * size,
                "test": TASKS_PER_AGENT * size,
                "arrivals": {"kind": "poisson", "rate_per_s": LOAD * capacity_per_s(raw)},
            }
        seeds = settings.seed_range() if size < 100 else settings.seed_range()[: 5 if size == 100 else 2]
        values_of = {
            seed: point_values(raw | {"topology": drawn(size, graph, seed)}, settings, **changes)
            for seed in seeds
        }
        cells += [
            Cell(arm=arm, point=f"{name}, {size} agents", seed=seed, values=values_of[seed])
            for arm in (deals(0), deals(20), router(weight=20, online=False))
            for seed in seeds
        ]
    return cells


def drawn(agents: int, graph: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The topology of a cell: a random one is drawn by the cell's seed, again where it leaves an agent cut off.
    Raises SettingsError where no draw connects all."""
    if graph["kind"] not in RANDOM:
        return dict(graph)
    return {**graph, "seed": _connected(agents, json.dumps(graph), seed)}


@cache
def _connected(agents: int, graph: str, seed: int) -> int:
    settings = TopologySettings.model_validate_json(graph)
    for draw in range(DRAWS):
        drawn_by = seed + draw * FURTHER
        try:
            build_topology(agents, settings.model_copy(update={"seed": drawn_by}))
        except SettingsError as error:
            last = error
        else:
            return drawn_by
    raise SettingsError(f"none of {DRAWS} drawn graphs will do: {last}") from last


def _report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    points = dict.fromkeys(each.point for each in done)
    how = (
        "All tasks arrive at once."
        if settings.backend == "vllm"
        else f"Poisson arrivals at {LOAD:g} of capacity, {TASKS_PER_AGENT} warm-up and test tasks an agent; the pool's "
        "kinds of agents in turn along the graph."
    )
    return StudyReport(
        grids=[overview("graphs", done, arms_down=False)],
        details=[arm_table(point, done, "DEALS V=0", point) for point in points],
        notes=[f"{how} Random graphs are drawn anew for each seed. The paper ran complete graphs only."],
    )


TOPOLOGIES = Study(
    name="deals-topologies",
    summary="complete, chain, ring, star, regular, small-world and random graphs of 3 to 1000 agents",
    defaults={
        "simulated": {"seeds": 20},
        "replay": {"seeds": 20},
        "vllm": {"seeds": 1, "warmup": 100, "test": 90},
    },
    pools={
        "simulated": ("simulated-unlike-x3",),
        "replay": ("recorded-x3",),
        "vllm": ("specialists",),
    },
    cells=_cells,
    report=_report,
)
