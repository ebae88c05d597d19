"""What an agent learns from verdicts: success counts, and trajectories that wait for theirs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.agent.duplicates import RecentTasks
from actors.config import AgentSettings
from actors.routing.quality import Counts, SuccessEstimates
from actors.task import AgentId, StepRecord, Task, TaskId
from retrieval.api import Trajectory

CREDITED_LIMIT = 100_000
"""Tasks whose verdict is remembered, so that a repeated one does not count."""


def trajectory_of(task: Task, position: int, step: StepRecord) -> Trajectory:
    """The demonstration that the step at `position` of the task's trail becomes."""
    return Trajectory(
        trajectory_id=f"{task.task_id}:{position}",
        task_type=task.task_type,
        key_text=step.key_text,
        text=step.demonstration,
        duration_s=step.execution_s,
    )


def earned(agent: AgentId, task: Task) -> list[Trajectory]:
    """What `agent` may remember of a task that turned out right: its own steps."""
    return [
        trajectory_of(task, position, step)
        for position, step in enumerate(task.steps)
        if step.agent == agent and step.kind not in {"failed", "forwarded"}
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What one agent had learned, as a run that goes on hands it over."""

    counts: Counts
    credited: tuple[TaskId, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()


class Learning:
    """Counts and pending trajectories of one agent. A task is credited once, however often a verdict comes."""

    def __init__(self, types: int, settings: AgentSettings) -> None:
        self.estimates = SuccessEstimates(types, settings.quality)
        self.frozen = False
        self._splits_must_pay = settings.executor.splits_must_pay
        self._pending_limit = settings.memory.pending_limit
        self._pending: dict[TaskId, list[Trajectory]] = {}
        self._credited = RecentTasks(CREDITED_LIMIT)
        self._divided = RecentTasks(CREDITED_LIMIT)

    def worked(self, task: Task, position: int) -> int:
        """Keeps the trajectory of the step just done until its verdict; returns how many were dropped."""
        if self.frozen or task.steps[position].kind == "forwarded":
            return 0
        if task.steps[position].part:
            self._divided.add(task.task_id)
        mine = self._pending.setdefault(task.task_id, [])
        mine.append(trajectory_of(task, position, task.steps[position]))
        dropped = 0
        while len(self._pending) > self._pending_limit:
            dropped += len(self._pending.pop(next(iter(self._pending))))
        return dropped

    def credit(self, task_id: TaskId, type_index: int, *, success: bool) -> list[Trajectory]:
        """Counts a verdict; returns the trajectories that it confirms. Nothing while frozen."""
        pending = self._pending.pop(task_id, [])
        if self.frozen or task_id in self._credited:
            return []
        self._credited.add(task_id)
        self.estimates.credit(type_index, success=success, divided=task_id in self._divided)
        return pending if success else []

    def split_pays(self, type_index: int, quality_weight: float) -> bool:
        """Whether splitting a task of a type is worth the step it costs; always, where it need not be."""
        return not self._splits_must_pay or quality_weight * self.estimates.split_gain(type_index) > 1

    def freeze(self, *, frozen: bool) -> None:
        """Starts or ends a phase in which nothing is learned; a verdict that is still out is forfeited."""
        self.frozen = frozen
        if frozen:
            self._pending.clear()

    def restore(self, counts: Counts, credited: Sequence[TaskId]) -> None:
        self.estimates.restore(counts)
        self._credited.update(credited)


STEP_SMOOTHING = 0.1
"""Weight of the newest step in the mean step time: about the last ten count."""


class MeanStep:
    """Recent mean time of one agent's execution steps."""

    def __init__(self) -> None:
        self.mean_s = 0.0
        """0 before the first has ended."""

    def ended(self, duration_s: float) -> None:
        """A step took so long."""
        known_s = self.mean_s
        self.mean_s = known_s + (duration_s - known_s) * STEP_SMOOTHING if known_s else duration_s
