"""What a run came to: its labels and the figures of both phases, as values and as tables for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from rich.table import Table

from experiments.grid import NOTHING, Grid, number, percent, share
from experiments.phase_summary import PhaseSummary, summarise_phase
from experiments.record import Phase, RunFolder
from experiments.settings import BackendSettings, RunSettings

SHOWN_AGENTS = 8
"""Columns a table has for agents; the rest are added up in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLabel:
    """Who an agent was."""

    name: str
    backend: str
    """Kind and model."""
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run, finished or not."""

    run_id: str
    experiment: str
    pool: str
    runtime: str
    data_set: str
    topology: str
    policy: str
    quality_weight: float
    """V of the test phase."""
    warmup_quality_weight: float
    seed: int
    encoder: str
    agents_A: tuple[AgentLabel, ...]
    simulated: bool
    """Whether an agent had a simulated backend."""
    recorded: bool
    """Whether an agent replayed recorded verdicts."""
    began_wall_s: float | None
    complete: bool
    notes: tuple[str, ...]
    """What a reader must know before believing a figure."""
    phases: tuple[PhaseSummary, ...]
    """Those that have tasks, in order."""

    @property
    def test(self) -> PhaseSummary:
        return self.phases[-1]

    @property
    def shown(self) -> PhaseSummary:
        """The phase to show in detail: the last one of which a task has finished."""
        return next((phase for phase in reversed(self.phases) if phase.finished), self.test)

    @property
    def backends(self) -> tuple[tuple[str, int], ...]:
        """(kind and model, agents that run on it), in the order of the agents."""
        kinds = [agent.backend for agent in self.agents_A]
        return tuple((kind, kinds.count(kind)) for kind in dict.fromkeys(kinds))

    @property
    def backend_label(self) -> str:
        """One line for a title: models and, where one is simulated, that no model answered."""
        line = ", ".join(f"{count} × {kind}" for kind, count in self.backends)
        said = (
            [SIMULATED] * self.simulated
            + [RECORDED] * self.recorded
            + [VIRTUAL] * (self.runtime == "simulation")
        )
        return f"{'; '.join(said)} ({line})" if said else line


SIMULATED = "simulated backend: no model answered"
RECORDED = "recorded: right where a real model's published answer was, no model answered now"
VIRTUAL = "times are virtual"


def summarise(folder: RunFolder) -> Summary:
    """Reads a run folder, also one of a run that goes on or was interrupted."""
    settings, machine = folder.settings(), folder.machine()
    tasks, results, marks, events = folder.tasks(), folder.results(), folder.marks(), folder.events()
    phases = tuple(
        summarise_phase(
            phase,
            tasks,
            results,
            marks,
            events,
            types_T=tuple(dict.fromkeys(task.row.task_type for task in tasks)),
            agents=len(settings.pool.agents),
        )
        for phase in get_args(Phase)
        if any(task.phase == phase for task in tasks)
    )
    mechanism = settings.pool.settings.mechanism
    complete = all(phase.complete for phase in phases)
    return Summary(
        run_id=folder.run_id,
        experiment=settings.experiment,
        pool=settings.pool.name,
        runtime=settings.runtime,
        data_set=str(machine.get("dataset_label") or settings.dataset.name),
        topology=settings.pool.topology.kind,
        policy=mechanism.policy,
        quality_weight=mechanism.quality_weight,
        warmup_quality_weight=mechanism.warmup_quality_weight,
        seed=settings.seed,
        encoder=_encoder_label(settings),
        agents_A=tuple(
            AgentLabel(name=agent.name, backend=backend_label(agent.backend), slots=agent.slots)
            for agent in settings.pool.agents
        ),
        simulated=any(agent.backend.kind == "simulated" for agent in settings.pool.agents),
        recorded=any(agent.backend.kind == "replay" for agent in settings.pool.agents),
        began_wall_s=marks[0].wall_s if marks else None,
        complete=complete,
        notes=_notes(settings, phases),
        phases=phases,
    )


def backend_label(backend: BackendSettings) -> str:
    """`vllm_engine smollm2-135m-instruct`."""
    parallel = f" (tensor parallel {backend.tensor_parallel})" if backend.tensor_parallel > 1 else ""
    return f"{backend.kind} {backend.model}".strip() + parallel


def _encoder_label(settings: RunSettings) -> str:
    encoder = settings.pool.encoder
    if encoder is None or settings.pool.settings.memory.kind == "none":
        return "none"
    return f"{encoder.kind} {encoder.model}".strip()


def _notes(settings: RunSettings, phases: Sequence[PhaseSummary]) -> tuple[str, ...]:
    notes = []
    kinds = [agent.backend.kind for agent in settings.pool.agents]
    if "simulated" in kinds:
        some = (
            "" if set(kinds) == {"simulated"} else f" for {kinds.count('simulated')} of {len(kinds)} agents"
        )
        notes.append(f"{SIMULATED}{some}; accuracy, tokens and times are the settings', not a model's")
    if "replay" in kinds:
        notes.append(f"{RECORDED}; what was said when it was wrong, and all times, are simulated")
    if settings.runtime == "simulation":
        notes.append(f"{VIRTUAL}: nothing waited, so rates say nothing of this machine")
    for phase in phases:
        if not phase.complete:
            notes.append(
                f"unfinished run: {phase.finished} of {phase.tasks} {phase.phase} tasks have ended; "
                f"the figures are of those"
            )
        if phase.time.interrupted and phase.finished:
            notes.append(
                f"{phase.phase}: interrupted; its time is the sum of {len(phase.time.segments)} active "
                f"segment(s), an interrupted one ending at its last result"
            )
        if phase.steps_unrecorded:
            notes.append(
                f"{phase.phase}: the measurements of {phase.steps_unrecorded} step(s) are not in the folder; "
                f"calls and tokens are too low by them"
            )
    return tuple(notes)


# Tables


def summary_tables(summary: Summary) -> list[Table]:
    """What a run came to: labels, figures, accuracy and finishers by type, and agents."""
    return [grid.rich() for grid in summary_grids(summary)]


def summary_grids(summary: Summary) -> list[Grid]:
    phase = summary.shown
    return [
        run_grid(summary),
        figures_grid(summary),
        type_grid(summary, phase),
        agent_grid(summary, phase),
    ]


def run_grid(summary: Summary) -> Grid:
    """What was run, and what to know before believing a figure."""
    return Grid(
        title=f"Run {summary.run_id}" + ("" if summary.complete else " (unfinished)"),
        header=("", ""),
        rows=tuple(label_rows(summary)),
        note="\n".join(summary.notes),
    )


def figures_grid(summary: Summary) -> Grid:
    """One column of figures for each phase, then what agents counted, then the commonest errors."""
    phases = summary.phases
    figures = zip(*(figure_rows(phase) for phase in phases), strict=True)
    rows = [(cells[0][0], *(value for _, value in cells)) for cells in figures]
    counted = dict.fromkeys(name for phase in phases for name in phase.counts)
    rows += [(name, *(str(phase.counts.get(name, 0)) for phase in phases)) for name in counted]
    messages = dict.fromkeys(message for phase in phases for message, _ in phase.error_messages[:3])
    rows += [
        (f"error: {message[:160]}", *(str(dict(phase.error_messages).get(message, 0)) for phase in phases))
        for message in messages
    ]
    return Grid(title="Figures", header=("", *(phase.phase for phase in phases)), rows=tuple(rows))


def label_rows(summary: Summary) -> list[tuple[str, str]]:
    """What was run."""
    began = summary.began_wall_s
    return [
        ("experiment", f"{summary.experiment}, seed {summary.seed}"),
        ("began", NOTHING if began is None else f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M} UTC"),
        ("data", summary.data_set),
        ("pool", f"{summary.pool}: {len(summary.agents_A)} agents, {summary.topology} graph"),
        ("models", "; ".join(f"{count} × {kind}" for kind, count in summary.backends)),
        ("encoder", summary.encoder),
        ("routing", f"{summary.policy}, V = {summary.quality_weight:g}"),
        ("warm-up V", f"{summary.warmup_quality_weight:g}"),
        ("runtime", summary.runtime),
    ]


def figure_rows(phase: PhaseSummary) -> list[tuple[str, str]]:
    """What came of one phase; the same rows for every phase."""
    return [
        ("tasks", f"{phase.finished} of {phase.tasks} finished"),
        ("errors", str(phase.errors)),
        ("accuracy [95 %]", percent(phase.accuracy)),
        ("throughput (answers/min)", number(phase.throughput_per_min)),
        ("active time (s)", number(phase.time.total_s)),
        ("latency, median (s)", number(phase.latency_median_s, 2)),
        ("latency, 95th percentile (s)", number(phase.latency_p95_s, 2)),
        ("forwards", str(phase.forwards)),
        ("tasks forwarded", share(phase.tasks_forwarded, phase.finished)),
        ("tasks by forwards", ", ".join(f"{k}: {n}" for k, n in phase.tasks_by_forwards) or NOTHING),
        ("splits", str(phase.splits)),
        ("model calls", f"{phase.total('calls'):,}"),
        ("prompt tokens", f"{phase.total('prompt_tokens'):,}"),
        ("completion tokens", f"{phase.total('completion_tokens'):,}"),
        ("fallbacks", str(phase.total("fallbacks"))),
        ("dropped demonstrations", str(phase.total("dropped_demonstrations"))),
        ("recall skipped", str(phase.total("recall_skipped"))),
    ]


def type_grid(summary: Summary, phase: PhaseSummary) -> Grid:
    """Accuracy of each type and who gave its final answers."""
    agents = range(len(summary.agents_A))
    shown = sorted(agents, key=lambda a: -sum(phase.answers_AT[a]))
    shown, rest = sorted(shown[:SHOWN_AGENTS]), sorted(shown[SHOWN_AGENTS:])
    rows = []
    for t, name in enumerate(phase.types_T):
        column_A = [phase.answers_AT[a][t] for a in agents]
        rows.append((name, phase.accuracy_T[t], column_A))
    rows.append(("all", phase.accuracy, [sum(phase.answers_AT[a]) for a in agents]))
    return Grid(
        title=f"{phase.phase}: accuracy and final answers by type",
        header=(
            "type",
            "finished",
            "accuracy [95 %]",
            *(summary.agents_A[a].name for a in shown),
            *((f"{len(rest)} others",) if rest else ()),
        ),
        rows=tuple(
            (
                name,
                str(accuracy.total),
                percent(accuracy),
                *(share(column_A[a], sum(column_A)) for a in shown),
                *((share(sum(column_A[a] for a in rest), sum(column_A)),) if rest else ()),
            )
            for name, accuracy, column_A in rows
        ),
        note="final answers: tasks each agent answered, and its share of the type",
    )


def agent_grid(summary: Summary, phase: PhaseSummary) -> Grid:
    """What each agent did. Where all run the same model, the head of the report has said which."""
    unlike = len(summary.backends) > 1
    return Grid(
        title=f"{phase.phase}: agents",
        header=(
            "agent",
            *(["model"] if unlike else []),
            "final answers",
            "accuracy",
            "steps",
            "splits",
            "forwards out / in",
            "calls",
            "tokens in / out",
            "fallbacks",
            "longest queue",
        ),
        rows=tuple(
            (
                label.name,
                *([label.backend] if unlike else []),
                share(figures.final_answers, phase.answered),
                percent(figures.accuracy, interval=False),
                str(figures.executed + figures.splits + figures.failed),
                str(figures.splits),
                f"{figures.forwards_sent} / {figures.forwards_received}",
                f"{figures.calls:,}",
                f"{figures.prompt_tokens:,} / {figures.completion_tokens:,}",
                str(figures.fallbacks),
                str(max(figures.queue.waiting_P, default=0)),
            )
            for label, figures in zip(summary.agents_A, phase.agents_A, strict=True)
        ),
        note="accuracy: of the tasks that ended at the agent, errors counted as wrong",
    )
