"""The task stream of a run: which rows, in which order, where and when they arrive. Pure; all by seed."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actors.agent.learning import Learned, earned
from actors.errors import SettingsError
from actors.routing.quality import Counts
from actors.routing.scores import Floats
from actors.task import AgentId, Outcome, Task, TaskId, TaskType
from experiments.datasets.rows import DataSet, Row, split
from experiments.record import Phase, Result, StreamTask
from experiments.settings import ArrivalSettings, RunSettings

PHASES: tuple[Phase, ...] = ("warmup", "test")


def build_stream(data_set: DataSet, settings: RunSettings) -> list[StreamTask]:
    """Warm-up and test tasks. Types take turns, so that counts differ by at most one; then each phase is
    shuffled. Rows are drawn by (seed, type) alone: arms with the same seed see the same rows."""
    types = settings.dataset.types or data_set.types
    rows = split(
        data_set,
        warm_up_per_type=-(-settings.warmup // len(types)),
        test_per_type=-(-settings.test // len(types)),
        seed=settings.seed,
        types=types,
    )
    stream: list[StreamTask] = []
    for phase, drawn, count in (
        ("warmup", rows.warm_up, settings.warmup),
        ("test", rows.test, settings.test),
    ):
        stream += _phase_stream(PHASES[phase == "test"], _take_turns(drawn, count), settings)
    return stream


def _take_turns(rows: Sequence[Row], count: int) -> list[Row]:
    by_type: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_type[row.task_type].append(row)
    longest = max((len(of_type) for of_type in by_type.values()), default=0)
    turns = [of_type[turn] for turn in range(longest) for of_type in by_type.values() if turn < len(of_type)]
    return turns[:count]


def _phase_stream(phase: Phase, rows: list[Row], settings: RunSettings) -> list[StreamTask]:
    """Ingress probabilities are drawn per task type from Dirichlet(alpha) and fixed within the phase; warm-up
    and test use different seeds (DEALS appendix A)."""
    rng = np.random.default_rng([settings.seed, PHASES.index(phase)])
    rng.shuffle(rows)
    agents = len(settings.pool.agents)
    ingress_TN = {name: _ingress(settings, agents, rng) for name in sorted({row.task_type for row in rows})}
    arrivals_s = arrival_times(settings.arrivals, len(rows), rng)
    return [
        StreamTask(
            phase=phase,
            row=row,
            ingress=AgentId(int(rng.choice(agents, p=ingress_TN[row.task_type]))),
            arrival_s=arrival_s,
        )
        for row, arrival_s in zip(rows, arrivals_s, strict=True)
    ]


def _ingress(settings: RunSettings, agents: int, rng: np.random.Generator) -> Floats:
    """Probabilities of the arrival agents of one type. A central pick is made when a task enters; until then its
    arrival agent is the one that chance would give it."""
    drawn_N: Floats = rng.dirichlet([settings.ingress_alpha] * agents)
    if isinstance(settings.ingress, int):
        if settings.ingress >= agents:
            raise SettingsError(f"ingress is agent {settings.ingress}, but the pool has {agents} (from 0 on)")
        drawn_N = np.zeros(agents)
        drawn_N[settings.ingress] = 1
    return drawn_N


def arrival_times(settings: ArrivalSettings, count: int, rng: np.random.Generator) -> list[float]:
    """Seconds after the start of the phase, ascending."""
    match settings.kind:
        case "all_at_once" | "closed":
            return [0.0] * count
        case "poisson":
            return [float(t) for t in rng.exponential(1 / settings.rate_per_s, count).cumsum()]
        case "trace":
            if settings.trace is None:
                raise SettingsError("arrivals.kind is trace; give arrivals.trace a file of arrival times")
            times_s = _read_trace(settings.trace)
            if settings.trace_rate_per_s is None:
                return _repeated(times_s, count)
            return _stretch(times_s, count, settings.trace_rate_per_s, rng)


def _read_trace(path: Path) -> list[float]:
    if not path.is_file():
        raise SettingsError(
            f"there is no arrival trace {path}; give its place by --trace (a study: --data-dir)"
        )
    try:
        times_s = [float(line) for line in path.read_text().split()]
    except (OSError, ValueError) as error:
        raise SettingsError(f"arrival trace {path} cannot be read (one number a line): {error}") from error
    if not times_s or not all(map(math.isfinite, times_s)) or times_s != sorted(times_s) or times_s[0] < 0:
        raise SettingsError(f"arrival trace {path} must hold finite ascending times in seconds, at least one")
    return times_s


def _repeated(times_s: Sequence[float], count: int) -> list[float]:
    """Repeated to fill: each turn starts where the last one ended, one mean gap later."""
    turn_s = times_s[-1] + (times_s[-1] - times_s[0]) / max(len(times_s) - 1, 1)
    return [times_s[i % len(times_s)] + turn_s * (i // len(times_s)) for i in range(count)]


def _stretch(
    times_s: Sequence[float], count: int, rate_per_s: float, rng: np.random.Generator
) -> list[float]:
    """`count` gaps in a row, going round, from one that `rng` draws, scaled to the mean rate."""
    gaps_s = np.diff(times_s)
    if not gaps_s.any():
        raise SettingsError("an arrival trace that is scaled to a rate must hold two times that differ")
    first = int(rng.integers(len(gaps_s)))
    taken_s = gaps_s[(first + np.arange(count)) % len(gaps_s)]
    if not taken_s.any():  # all within one tick of the trace's clock, which hides their gaps
        taken_s = np.ones(count)
    return [float(t) for t in taken_s.cumsum() * (count / (rate_per_s * taken_s.sum()))]


def task_of(stream_task: StreamTask) -> Task:
    """The task as it enters the graph: everything of its row but the answer."""
    row = stream_task.row
    return Task(
        task_id=TaskId(row.task_id),
        task_type=TaskType(row.task_type),
        problem=row.problem,
        answer_format=row.answer_format,
        choices=row.choices,
        trace_id=row.task_id,
    )


NO_WORK = frozenset({"failed", "forwarded"})
"""Steps that did nothing for the answer."""


def workers(outcome: Outcome) -> tuple[AgentId, ...]:
    """Every agent that executed or split the task: whom its verdict is credited to (DEALS section 3.4)."""
    return tuple(dict.fromkeys(step.agent for step in outcome.task.steps if step.kind not in NO_WORK))


def learned_from(results: Sequence[Result], types: Sequence[TaskType]) -> dict[AgentId, Learned]:
    """What each agent has learned from the warm-up results of a run that was interrupted."""
    warmup = [result for result in results if result.phase == "warmup"]
    agents = sorted({agent for result in warmup for agent in workers(result.finished.outcome)})
    return {agent: _learned_by(agent, warmup, types) for agent in agents}


def _divided(agent: AgentId, task: Task) -> bool:
    """Whether the agent split a part off the task."""
    return any(step.agent == agent and step.part and step.kind not in NO_WORK for step in task.steps)


def _learned_by(agent: AgentId, warmup: Sequence[Result], types: Sequence[TaskType]) -> Learned:
    mine = [result for result in warmup if agent in workers(result.finished.outcome)]
    right = [result for result in mine if result.correct]
    wrong = [result for result in mine if not result.correct]

    def by_type(results: Sequence[Result]) -> tuple[int, ...]:
        seen = [result.finished.outcome.task.task_type for result in results]
        return tuple(seen.count(name) for name in types)

    def divided(results: Sequence[Result]) -> tuple[int, ...]:
        split = [result for result in results if _divided(agent, result.finished.outcome.task)]
        return by_type(split) if split else ()

    return Learned(
        counts=Counts(
            successes_T=by_type(right),
            failures_T=by_type(wrong),
            divided_successes_T=divided(right),
            divided_failures_T=divided(wrong),
        ),
        credited=tuple(result.finished.outcome.task.task_id for result in mine),
        trajectories=tuple(
            trajectory for result in right for trajectory in earned(agent, result.finished.outcome.task)
        ),
    )
