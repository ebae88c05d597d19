"""One warm-up and test under virtual time, kept in memory: what studies repeat over many seeds and arms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actors.cluster.api import Verdict
from actors.cluster.plan import Plan
from actors.cluster.simulation import START_WALL_S, Simulation
from actors.messages import SetPhase
from actors.routing.scores import Floats, Ints
from experiments.admission import Admission
from experiments.datasets.graders import grade
from experiments.phases import task_of, workers
from experiments.record import Phase, Result, StreamTask
from experiments.settings import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of a test stream. Axis M: test tasks in the order in which they ended; A: agents; T: types."""

    task_ids_M: tuple[str, ...]
    answers_M: tuple[str, ...]
    """Empty where a task ended with an error."""
    type_M: Ints
    finisher_M: Ints
    correct_M: NDArray[np.bool_]
    latency_s_M: Floats
    forwards_M: Ints
    calls_M: Ints
    """Model calls."""
    errors: int
    """Test tasks that ended with an error."""
    makespan_s: float
    """From the start of the test to its last end."""
    slots: int
    busy_s: float
    """Slot time of the test's execution steps."""
    call_s: float
    """Mean duration of a model call of the test."""
    warmup_steps: int
    """Execution steps of the warm-up: its cost."""
    agents: int

    @property
    def accuracy(self) -> float:
        """Share of test tasks answered rightly."""
        return float(self.correct_M.mean())

    @property
    def shares_A(self) -> Floats:
        """Share of test tasks that each agent finished."""
        return np.bincount(self.finisher_M, minlength=self.agents) / len(self.finisher_M)

    @property
    def heaviest_share(self) -> float:
        """Of the agent that finished most."""
        return float(self.shares_A.max())

    @property
    def throughput_per_min(self) -> float:
        """Test tasks that ended with an answer, per minute."""
        return (len(self.task_ids_M) - self.errors) / self.makespan_s * 60

    @property
    def utilisation(self) -> float:
        """Share of slot time in which a step was executed."""
        return self.busy_s / (self.slots * self.makespan_s)


def run_trial(plan: Plan, stream: Sequence[StreamTask], settings: RunSettings) -> Trial:
    """Warm-up (if the stream has any), freeze, test, all under virtual time."""
    results: list[Result] = []
    began_s = {"warmup": 0.0, "test": 0.0}

    def began(phase: Phase, now_s: float) -> None:
        began_s[phase] = now_s

    simulate(plan, stream, settings, results.append, began)
    last_s = max(result.finished.finished_wall_s for result in results) - START_WALL_S
    return trial_of(plan, results, last_s - began_s["test"])


def simulate(
    plan: Plan,
    stream: Sequence[StreamTask],
    settings: RunSettings,
    ended: Callable[[Result], None],
    began: Callable[[Phase, float], None],
) -> Simulation:
    """Runs all phases; tells of each phase's begin (virtual time) and of each result, in order."""
    simulation = Simulation(plan, settings.simulation)
    admission = Admission(settings)
    mechanism = plan.settings.mechanism
    weights: dict[Phase, float] = {
        "warmup": mechanism.warmup_quality_weight,
        "test": mechanism.quality_weight,
    }
    for phase, weight in weights.items():
        tasks = [task for task in stream if task.phase == phase]
        if tasks:
            frozen = phase == "test" and not settings.online
            simulation.broadcast(
                SetPhase(phase=phase, quality_weight=weight, frozen=frozen, warmup=phase == "warmup")
            )
            began(phase, simulation.now_s)
            for result in _phase(simulation, tasks, settings, admission, frozen=frozen):
                ended(result)
    return simulation


def _phase(
    simulation: Simulation,
    tasks: Sequence[StreamTask],
    settings: RunSettings,
    admission: Admission,
    *,
    frozen: bool,
) -> list[Result]:
    """Results in the order in which they came; while verdicts count, each goes out at once."""
    rows = {task.row.task_id: task.row for task in tasks}
    closed = settings.arrivals.kind == "closed"
    first = settings.arrivals.under_way if closed else len(tasks)
    waiting = list(reversed(tasks[first:]))
    simulation.submit([(task.arrival_s, admission.agent(task), task_of(task)) for task in tasks[:first]])
    results = []
    for finished in simulation.run():
        outcome = finished.outcome
        row = rows[outcome.task.task_id]
        correct = outcome.answer is not None and grade(row, outcome.answer)
        phase = tasks[0].phase
        results.append(Result(phase=phase, correct=correct, expected=row.answer, finished=finished))
        verdict = Verdict(
            task_id=outcome.task.task_id,
            task_type=outcome.task.task_type,
            agents=workers(outcome),
            success=correct,
        )
        if not frozen:
            simulation.credit([verdict])
            admission.verdict(verdict)
        if waiting:
            task = waiting.pop()
            simulation.submit([(0.0, admission.agent(task), task_of(task))])
    assert len(results) == len(tasks), "a task was lost"
    return results


def trial_of(plan: Plan, results: Sequence[Result], makespan_s: float) -> Trial:
    """The columns of the test results of any run; `makespan_s` is the test's."""
    index = {name: c for c, name in enumerate(plan.types)}
    test = [result.finished for result in results if result.phase == "test"]
    warmup = [result.finished for result in results if result.phase == "warmup"]
    tasks = [finished.outcome.task for finished in test]
    calls_s = [call.duration_s for task in tasks for step in task.steps for call in step.calls]
    return Trial(
        task_ids_M=tuple(task.task_id for task in tasks),
        answers_M=tuple(finished.outcome.answer or "" for finished in test),
        type_M=np.array([index[task.task_type] for task in tasks]),
        finisher_M=np.array([finished.outcome.finisher for finished in test]),
        correct_M=np.array([result.correct for result in results if result.phase == "test"]),
        latency_s_M=np.array([finished.latency_s for finished in test]),
        forwards_M=np.array([task.forwards for task in tasks]),
        calls_M=np.array([sum(len(step.calls) for step in task.steps) for task in tasks]),
        errors=sum(finished.outcome.error is not None for finished in test),
        makespan_s=makespan_s,
        slots=sum(agent.slots for agent in plan.agents),
        busy_s=sum(step.duration_s for task in tasks for step in task.steps),
        call_s=float(np.mean(calls_s)) if calls_s else 0.0,
        warmup_steps=sum(len(finished.outcome.task.steps) for finished in warmup),
        agents=len(plan.agents),
    )
