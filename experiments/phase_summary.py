"""What one phase of a run came to: every figure as a plain value."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.metrics import (
    ArrivalRecord,
    CountRecord,
    DecisionRecord,
    ExecutionRecord,
    QueueRecord,
    Stamped,
)
from experiments.active_time import ActiveTime, active_time
from experiments.record import Phase, PhaseMark, Result, StreamTask
from experiments.stats import Proportion, median, quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSeries:
    """An agent's load over time, one point for each time it told its neighbours of a change. Axis P: points."""

    at_s_P: tuple[float, ...]
    """Active seconds since the phase began."""
    waiting_P: tuple[int, ...]
    """Queued tasks of all types."""
    in_service_P: tuple[int, ...]
    """Occupied slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures:
    """What one agent did in one phase. Work (steps, calls, tokens) is counted where it was done, also for
    tasks that are not finished and for work that an interruption made void."""

    final_answers: int
    """Tasks that it answered."""
    accuracy: Proportion
    """Of the tasks that ended at it, errors included."""
    executed: int
    splits: int
    failed: int
    """Steps by how they ended."""
    forwards_sent: int
    """Hand-overs that arrived."""
    forwards_received: int
    prompt_tokens: int
    completion_tokens: int
    calls: int
    dropped_demonstrations: int
    fallbacks: int
    recall_skipped: int
    queue: QueueSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSummary:
    """One phase. Axis A: agents by id; axis T: task types in the order of the stream."""

    phase: Phase
    tasks: int
    """In the stream."""
    finished: int
    """Ended, with an answer or an error."""
    errors: int
    error_messages: tuple[tuple[str, int], ...]
    """Commonest first."""
    types_T: tuple[str, ...]
    accuracy: Proportion
    """Of the finished tasks; an error is wrong."""
    accuracy_T: tuple[Proportion, ...]
    answers_AT: tuple[tuple[int, ...], ...]
    """Final answers."""
    agents_A: tuple[AgentFigures, ...]
    time: ActiveTime
    throughput_per_min: float | None
    """Answered tasks per minute of active time (DEALS section 3.4)."""
    finished_at_s: tuple[float, ...]
    """Active seconds at which each answer came, ascending."""
    latency_median_s: float | None
    latency_p95_s: float | None
    forwards: int
    """Of the finished tasks, as are the next three."""
    splits: int
    tasks_forwarded: int
    """Tasks with at least one forward."""
    tasks_by_forwards: tuple[tuple[int, int], ...]
    """(forwards, tasks with so many), ascending."""
    counts: Mapping[str, int]
    """Everything else that agents counted, by name."""
    steps_unrecorded: int
    """Steps of finished tasks whose measurements were lost; the work figures are too low by them."""

    @property
    def answered(self) -> int:
        return self.finished - self.errors

    @property
    def complete(self) -> bool:
        return self.finished == self.tasks

    def total(self, figure: str) -> int:
        """Sum over the agents of a whole-number field of `AgentFigures`."""
        return sum(getattr(agent, figure) for agent in self.agents_A)


def summarise_phase(
    phase: Phase,
    tasks: Sequence[StreamTask],
    results: Sequence[Result],
    marks: Sequence[PhaseMark],
    events: Sequence[Stamped],
    *,
    types_T: Sequence[str],
    agents: int,
) -> PhaseSummary:
    """One phase from the whole content of a run folder."""
    results = [result for result in results if result.phase == phase]
    answered = [result for result in results if result.finished.outcome.error is None]
    time = active_time(phase, marks, [result.finished.finished_wall_s for result in results])
    own_events = [stamped for stamped in events if _phase_of(stamped, marks) == phase]
    errors = Counter(r.finished.outcome.error for r in results if r.finished.outcome.error is not None)
    latencies_s = [result.finished.latency_s for result in answered]
    forwards = Counter(result.finished.outcome.task.forwards for result in results)
    steps = [step for result in results for step in result.finished.outcome.task.steps]
    executions = sum(isinstance(stamped.record, ExecutionRecord) for stamped in own_events)
    return PhaseSummary(
        phase=phase,
        tasks=sum(task.phase == phase for task in tasks),
        finished=len(results),
        errors=errors.total(),
        error_messages=tuple(errors.most_common()),
        types_T=tuple(types_T),
        accuracy=_accuracy(results),
        accuracy_T=tuple(_accuracy([r for r in results if _type_of(r) == name]) for name in types_T),
        answers_AT=_answers(answered, types_T, agents),
        agents_A=_agents(results, own_events, time, agents),
        time=time,
        throughput_per_min=60 * len(answered) / time.total_s if time.total_s > 0 else None,
        finished_at_s=tuple(sorted(time.at(result.finished.finished_wall_s) for result in answered)),
        latency_median_s=median(latencies_s),
        latency_p95_s=quantile(latencies_s, 0.95),
        forwards=sum(count * number for count, number in forwards.items()),
        splits=sum(step.kind == "split" for step in steps),
        tasks_forwarded=len(results) - forwards[0],
        tasks_by_forwards=tuple(sorted(forwards.items())),
        counts=_counts(own_events),
        steps_unrecorded=max(0, len(steps) - executions),
    )


def _phase_of(stamped: Stamped, marks: Sequence[PhaseMark]) -> str:
    """The phase of a record; one that names none belongs to the phase that had begun last."""
    if stamped.record.phase:
        return stamped.record.phase
    begun = [mark.phase for mark in marks if mark.what == "begin" and mark.wall_s <= stamped.wall_s]
    return begun[-1] if begun else ""


def _type_of(result: Result) -> str:
    return result.finished.outcome.task.task_type


def _accuracy(results: Sequence[Result]) -> Proportion:
    return Proportion(successes=sum(result.correct for result in results), total=len(results))


def _answers(answered: Sequence[Result], types_T: Sequence[str], agents: int) -> tuple[tuple[int, ...], ...]:
    pairs = Counter((int(result.finished.outcome.finisher), _type_of(result)) for result in answered)
    return tuple(tuple(pairs[agent, name] for name in types_T) for agent in range(agents))


def _counts(events: Sequence[Stamped]) -> dict[str, int]:
    names = Counter(s.record.what for s in events if isinstance(s.record, CountRecord))
    return dict(names.most_common())


def _agents(
    results: Sequence[Result], events: Sequence[Stamped], time: ActiveTime, agents: int
) -> tuple[AgentFigures, ...]:
    work_A: list[Counter[str]] = [Counter() for _ in range(agents)]
    queues_A: list[list[tuple[float, int, int]]] = [[] for _ in range(agents)]
    for stamped in events:
        work = work_A[stamped.record.agent]
        match stamped.record:
            case ExecutionRecord() as record:
                work[record.kind] += 1
                for figure in _WORK:
                    work[figure] += getattr(record, figure)
            case DecisionRecord(chosen=chosen):
                work["forwards_sent"] += chosen is not None
            case ArrivalRecord(how=how):
                work["forwards_sent"] -= how == "returned"
                work["forwards_received"] += how == "forwarded"
            case QueueRecord(waiting_T=waiting_T, in_service=in_service):
                point = (time.at(stamped.wall_s), sum(waiting_T), in_service)
                queues_A[stamped.record.agent].append(point)
    ended_A: list[list[Result]] = [[] for _ in range(agents)]
    for result in results:
        ended_A[result.finished.outcome.finisher].append(result)
    return tuple(
        AgentFigures(
            final_answers=sum(r.finished.outcome.error is None for r in ended),
            accuracy=_accuracy(ended),
            executed=work["executed"],
            splits=work["split"],
            failed=work["failed"],
            forwards_sent=work["forwards_sent"],
            forwards_received=work["forwards_received"],
            queue=QueueSeries(
                at_s_P=tuple(point[0] for point in queue),
                waiting_P=tuple(point[1] for point in queue),
                in_service_P=tuple(point[2] for point in queue),
            ),
            **{figure: work[figure] for figure in _WORK},
        )
        for work, queue, ended in zip(work_A, queues_A, ended_A, strict=True)
    )


_WORK = (
    "prompt_tokens",
    "completion_tokens",
    "calls",
    "dropped_demonstrations",
    "fallbacks",
    "recall_skipped",
)
