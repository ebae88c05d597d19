"""One warm-up and test under virtual time, kept in memory: what studies repeat over many seeds and arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actors.cluster.api import Finished, Verdict
from actors.cluster.plan import Plan
from actors.cluster.simulation import START_WALL_S, Simulation
from actors.cluster.simulation_settings import SimulationSettings
from actors.messages import SetPhase
from actors.routing.scores import Floats, Ints
from experiments.datasets.graders import grade
from experiments.datasets.rows import Row
from experiments.phases import task_of, workers
from experiments.record import StreamTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of a test stream. Axis M: test tasks in the order in which they ended; A: agents; T: types."""

    task_ids_M: tuple[str, ...]
    type_M: Ints
    ingress_M: Ints
    finisher_M: Ints
    correct_M: NDArray[np.bool_]
    latency_s_M: Floats
    forwards_M: Ints
    calls_M: Ints
    """Model calls."""
    splits_M: Ints
    errors: int
    """Test tasks that ended with an error."""
    makespan_s: float
    """From the first arrival of the test to its last end."""
    slots: int
    busy_s: float
    """Slot time of the test's execution steps."""
    warmup_steps: int
    """Execution steps of the warm-up: its cost."""
    quality_AT: Floats
    """Success estimates when the warm-up had ended."""
    agents: int
    events: int
    """Events that agents handled."""

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
        """Test tasks that ended with an answer, per minute of virtual time."""
        return (len(self.task_ids_M) - self.errors) / self.makespan_s * 60

    @property
    def utilisation(self) -> float:
        """Share of slot time in which a step was executed."""
        return self.busy_s / (self.slots * self.makespan_s)


def run_trial(
    plan: Plan,
    stream: Sequence[StreamTask],
    *,
    online: bool = False,
    simulation: SimulationSettings | None = None,
) -> Trial:
    """Warm-up (if the stream has any), freeze, test. With `online` the test is not frozen: its verdicts count."""
    sim = Simulation(plan, simulation)
    rows = {task.row.task_id: task.row for task in stream}
    mechanism = plan.settings.mechanism
    warmup = _run_phase(
        sim, rows, [task for task in stream if task.phase == "warmup"],
        SetPhase(phase="warmup", quality_weight=mechanism.warmup_quality_weight, frozen=False),
    )  # fmt: skip
    counts = [snapshot.counts for snapshot in sim.snapshots()]
    prior = plan.settings.quality
    quality_AT = np.array(
        [
            [
                (s + prior.prior_successes) / (s + f + prior.prior_successes + prior.prior_failures)
                for s, f in zip(count.successes_T, count.failures_T, strict=True)
            ]
            for count in counts
        ]
    )
    test = [task for task in stream if task.phase == "test"]
    began_s = sim.now_s + test[0].arrival_s
    frozen = SetPhase(phase="test", quality_weight=mechanism.quality_weight, frozen=not online)
    ended = _run_phase(sim, rows, test, frozen)
    return _trial(
        plan, test, ended, sim, began_s, quality_AT, sum(len(f.outcome.task.steps) for f, _ in warmup)
    )


def _run_phase(
    sim: Simulation, rows: Mapping[str, Row], tasks: Sequence[StreamTask], phase: SetPhase
) -> list[tuple[Finished, bool]]:
    """(result, whether it was right), in order; each verdict goes out at once."""
    sim.broadcast(phase)
    sim.submit([(task.arrival_s, task.ingress, task_of(task)) for task in tasks])
    ended = []
    for finished in sim.run():
        outcome = finished.outcome
        correct = outcome.answer is not None and grade(rows[outcome.task.task_id], outcome.answer)
        ended.append((finished, correct))
        sim.credit(
            [
                Verdict(
                    task_id=outcome.task.task_id,
                    task_type=outcome.task.task_type,
                    agents=workers(outcome),
                    success=correct,
                )
            ]
            if not phase.frozen
            else ()
        )
    assert len(ended) == len(tasks), "a task was lost"
    return ended


def _trial(
    plan: Plan,
    test: Sequence[StreamTask],
    ended: Sequence[tuple[Finished, bool]],
    sim: Simulation,
    began_s: float,
    quality_AT: Floats,
    warmup_steps: int,
) -> Trial:
    index = {name: c for c, name in enumerate(plan.types)}
    ingress = {task.row.task_id: task.ingress for task in test}
    tasks = [finished.outcome.task for finished, _ in ended]
    last_s = max(finished.finished_wall_s for finished, _ in ended) - START_WALL_S
    return Trial(
        task_ids_M=tuple(task.task_id for task in tasks),
        type_M=np.array([index[task.task_type] for task in tasks]),
        ingress_M=np.array([ingress[task.task_id] for task in tasks]),
        finisher_M=np.array([finished.outcome.finisher for finished, _ in ended]),
        correct_M=np.array([correct for _, correct in ended]),
        latency_s_M=np.array([finished.latency_s for finished, _ in ended]),
        forwards_M=np.array([task.forwards for task in tasks]),
        calls_M=np.array([sum(len(step.calls) for step in task.steps) for task in tasks]),
        splits_M=np.array([task.splits for task in tasks]),
        errors=sum(finished.outcome.error is not None for finished, _ in ended),
        makespan_s=last_s - began_s,
        slots=sum(agent.slots for agent in plan.agents),
        busy_s=sum(step.duration_s for task in tasks for step in task.steps),
        warmup_steps=warmup_steps,
        quality_AT=quality_AT,
        agents=len(plan.agents),
        events=sim.events,
    )
