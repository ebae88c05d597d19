"""The paper's accuracy studies: homogeneous and mixed pools, the quality weight, pool sizes."""

from collections.abc import Sequence
from dataclasses import replace

from experiments.deals.studies.arms import PAPER_WEIGHTS, agentnet, baselines, deals, router, self_consistency
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.pools import FORWARD_RATE, agent_names, routing_by_chance
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, grid, point_values
from experiments.deals.studies.tables import (
    accuracy,
    arm_table,
    numbers,
    percent,
    plain,
    share_plot,
    shown_mean,
)
from experiments.grid import NOTHING, Grid
from experiments.launch import load_data
from experiments.line_plots import Line, LinePlot
from experiments.phases import build_stream
from experiments.specialists.oracle import oracle_line

NO_SAMPLES = (
    "Self-consistency needs several samples of one model and cannot be measured on verdicts that were recorded or "
    "drawn once a task: no row."
)
KIND_VOTES: dict[str, str] = {
    "replay": "a majority vote may look better than real: agents fail on the same questions as the models did, but "
    "which wrong answer each gives is drawn by chance, so that wrong votes seldom agree",
    "simulated": "a majority vote may look better than real: each agent's verdicts and wrong answers are drawn by "
    "chance, so that agents neither fail on the same tasks nor err alike",
}
REAL_VOTES = (
    "Self-consistency: five samples of one model at temperature 0.7, each with its own seed. Votes are paid for by "
    "every agent that answers: see calls."
)


AGENTNET_NOTE = (
    f"AgentNet pays four or five calls a task where the others pay one here: compare its accuracy, and its throughput "
    f"in deals-throughput, where all pay alike. Its model's choice of a neighbour is chance here: {FORWARD_RATE:g} of "
    "its router calls forward."
)


def _vote_note(settings: StudySettings) -> str:
    return REAL_VOTES if settings.backend == "vllm" else NO_SAMPLES


def oracle_notes(settings: StudySettings) -> list[str]:
    """What perfect assignment would reach in each pool, where that was measured beforehand (specialists)."""
    notes = []
    for raw in settings.pools if settings.backend == "vllm" else ():
        values = point_values(raw, settings)
        run = Cell(
            arm=deals(0), point="", seed=settings.first_seed, values=values, changes=settings.changes
        ).settings()
        if run.dataset.name != "families":  # the only problems that they were measured on
            continue
        data_set = load_data(run.dataset, warmup=run.warmup, test=run.test, seed=run.seed)
        if (line := oracle_line(run, build_stream(data_set, run))) is not None:
            notes.append(f"Pool {run.pool.name}, {line}.")
    return notes


def _cells(settings: StudySettings, weights: Sequence[float]) -> list[Cell]:
    cells = []
    for raw in settings.pools:
        names = agent_names(raw)
        arms = [*baselines(names), *map(deals, weights), router(online=False), router()]
        if settings.backend == "vllm":
            arms += [self_consistency(position, name) for position, name in enumerate(names)]
        else:
            arms += agentnet()
        values = point_values(routing_by_chance(raw), settings)
        cells += [
            Cell(arm=arm, point=raw["name"], seed=seed, values=values)
            for arm in arms
            for seed in settings.seed_range()
        ]
    return cells


def _accuracy_cells(settings: StudySettings) -> list[Cell]:
    return _cells(settings, PAPER_WEIGHTS)


def _points(settings: StudySettings, done: Sequence[Done]) -> tuple[list[Grid], list[LinePlot]]:
    names = list(dict.fromkeys(each.point for each in done))
    grids = [arm_table(f"pool {name}", done, "DEALS V=0", name) for name in names]
    if settings.backend in KIND_VOTES:
        grids = [replace(table, note=f"{table.note}; {KIND_VOTES[settings.backend]}") for table in grids]
    plots = [
        share_plot(f"Accuracy against load, pool {name}", f"shares-{name}", done, name) for name in names
    ]
    return grids, plots


def _accuracy_report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    grids, plots = _points(settings, done)
    return StudyReport(
        grids=grids,
        plots=plots,
        notes=[
            "The paper: mixed pool 66.52 % on average over MATH, BBH and MMLU-Pro against AgentNet's 57.76 %; "
            "backlog only (V=0) falls below its strongest single agent (66.43 %); homogeneous pools change little "
            "with V. All tasks arrive at once.",
            _vote_note(settings),
            *([] if settings.backend == "vllm" else [AGENTNET_NOTE]),
            *oracle_notes(settings),
        ],
    )


def _sweep_cells(settings: StudySettings) -> list[Cell]:
    values = point_values(settings.pools[0], settings)
    return [
        Cell(arm=deals(weight), point="", seed=seed, values=values)
        for weight in PAPER_WEIGHTS
        for seed in settings.seed_range()
    ]


def _sweep_report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    names = agent_names(settings.pools[0])
    rows, cells_of = [], grid(done)
    weights = [weight for weight in PAPER_WEIGHTS if ("", deals(weight).name) in cells_of]
    shares: dict[str, list[list[float]]] = {name: [] for name in names}
    for weight in weights:
        cells = cells_of["", deals(weight).name]
        for position, name in enumerate(names):
            shares[name].append([cell.numbers("shares")[position] for cell in cells])
        rows.append(
            (
                f"{weight}",
                accuracy(cells),
                *(percent(shares[name][-1]) for name in names),
                plain(numbers(cells, "throughput_per_min"), 0),
                plain(numbers(cells, "latency_s")),
            )
        )
    table = Grid(
        title="accuracy, shares and throughput against V",
        header=("V", "accuracy % [95 %]", *(f"{name}'s share %" for name in names), "tasks/min", "latency s"),
        rows=tuple(rows),
    )
    right = [numbers(cells_of["", deals(weight).name], "accuracy") for weight in weights]
    plots = [
        LinePlot(
            name="accuracy", title="Accuracy against V", x_label="V", y_label="accuracy %",
            lines=[_line("ours", weights, right)],
            published=[("paper, MATH", 0, 44.29), ("paper, MATH", 80, 73.57)],
        ),
        LinePlot(
            name="shares", title="Who answers", x_label="V", y_label="share of the tasks, %",
            lines=[_line(name, weights, shares[name]) for name in names],
            published=[("paper, strongest, MATH", 80, 99.0), ("paper, strongest, MMLU-Pro", 80, 64.0)],
        ),
    ]  # fmt: skip
    return StudyReport(
        grids=[table],
        plots=plots,
        notes=[
            "The paper, on other models and other data: MATH 44.29 % at V=0 and 73.57 % at V=80; shares even at V=0; "
            "at V=80 the strongest agent answers about 99 % of MATH and 64 % of MMLU-Pro. All tasks arrive at once.",
            *oracle_notes(settings),
        ],
    )


def _line(label: str, weights: Sequence[float], values: Sequence[Sequence[float]]) -> Line:
    found = [shown_mean([100 * value for value in each]) for each in values]
    return Line(
        label=label,
        x_P=weights,
        y_P=[each.value for each in found],
        low_P=[each.low for each in found],
        high_P=[each.high for each in found],
    )


def _pool_cells(settings: StudySettings) -> list[Cell]:
    return _cells(settings, (0, 20, 80))


def _pool_report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    grids, plots = _points(settings, done)
    weak = " Here as there the two agents that make seven are weak." if settings.backend == "replay" else ""
    return StudyReport(
        grids=[_by_size(settings, done), *grids],
        plots=plots,
        notes=[
            "The paper at V=80 (MATH): five agents 72.86 %, seven 67.86 %, its strongest single agent 66.43 %."
            + weak,
            _vote_note(settings),
            *([] if settings.backend == "vllm" else [AGENTNET_NOTE]),
            *oracle_notes(settings),
        ],
    )


def _by_size(settings: StudySettings, done: Sequence[Done]) -> Grid:
    """The paper's comparison: one row a pool, its strongest agent beside."""
    cells_of, rows = grid(done), []
    for raw in settings.pools:
        names = agent_names(raw)
        alone = [cells_of.get((raw["name"], f"{name} alone"), []) for name in names]
        best = max(
            filter(None, alone), key=lambda cells: sum(numbers(cells, "accuracy")) / len(cells), default=[]
        )
        arms = [
            cells_of.get((raw["name"], arm.name), []) for arm in (deals(0), deals(80), router(online=False))
        ]
        if all(arms) and best:
            published = PUBLISHED_BY_SIZE.get(len(names), NOTHING)
            rows.append(
                (f"{len(names)}", published, *(accuracy(cells) for cells in (*arms, best)), best[0].arm)
            )
    header = ("agents", "paper, V=80 (MATH)", "DEALS V=0", "DEALS V=80", "our router", "strongest", "which")
    return Grid(title="accuracy % by number of agents", header=header, rows=tuple(rows))


PUBLISHED_BY_SIZE = {3: "73.57", 5: "72.86", 7: "67.86"}
"""At V=80 on MATH, mixed pools."""
ACCURACY = Study(
    name="deals-accuracy",
    summary="mixed and homogeneous pools under every arm",
    defaults={
        "replay": {"seeds": 40, "warmup": 700, "test": 140},
        "simulated": {"seeds": 40, "warmup": 240, "test": 240},
        "vllm": {"seeds": 1, "warmup": 100, "test": 90},
    },
    pools={
        "replay": ("recorded-one-strong-x3", "recorded-homogeneous-x3"),
        "simulated": ("simulated-unlike-x3",),
        "vllm": ("specialists", "specialists-homogeneous-x3"),
    },
    cells=_accuracy_cells,
    report=_accuracy_report,
    most_pools=8,
)
VSWEEP = Study(
    name="deals-vsweep",
    summary="accuracy, shares and throughput against the quality weight V",
    defaults={
        "replay": {"seeds": 100, "warmup": 700, "test": 140},
        "simulated": {"seeds": 40, "warmup": 240, "test": 240},
        "vllm": {"seeds": 3, "warmup": 100, "test": 90},
    },
    pools={
        "replay": ("recorded-one-strong-x3",),
        "simulated": ("simulated-unlike-x3",),
        "vllm": ("specialists",),
    },
    cells=_sweep_cells,
    report=_sweep_report,
    half="all",  # nothing of the paper's rule was chosen on these rows
)
POOLS = Study(
    name="deals-pools",
    summary="pools of 3, 5 and 7 agents under every arm",
    defaults={
        "replay": {"seeds": 40, "warmup": 700, "test": 140},
        "vllm": {"seeds": 1, "warmup": 100, "test": 90},
    },
    pools={
        "replay": ("recorded-x3", "recorded-x5", "recorded-x7"),
        "vllm": ("specialists-x3", "specialists"),
    },
    cells=_pool_cells,
    report=_pool_report,
    most_pools=8,
)
