"""Backpressure as a mechanism: decides at dispatch, from local information, without a message. Pure."""

import numpy as np

from actors.config import BackpressureSettings
from actors.errors import SettingsError
from actors.mechanism import Dispatched, ForwardTo, Keep, LocalView, MechanismCommand, MechanismEvent
from actors.metrics import Candidate
from actors.routing.policies import POLICIES, Choice, Situation
from actors.task import Task


class Backpressure:
    """DEALS section 3.2: score every out-neighbour but the task's previous agent; forward to the best if its
    score exceeds the margin and fewer than `max_hops` forwards were made; else keep."""

    def __init__(self, settings: BackpressureSettings, recorded_candidates: int) -> None:
        if settings.policy not in POLICIES:
            known = ", ".join(sorted(POLICIES))
            raise SettingsError(f"mechanism.policy {settings.policy!r} is unknown; choose one of: {known}")
        self._settings = settings
        self._policy = POLICIES[settings.policy]
        self._recorded = recorded_candidates

    def on_event(
        self, event: MechanismEvent, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> list[MechanismCommand]:
        """Answers `Dispatched` at once; has no use for anything else."""
        return [self._route(event.task, view, now_s, rng)] if isinstance(event, Dispatched) else []

    def _route(self, task: Task, view: LocalView, now_s: float, rng: np.random.Generator) -> MechanismCommand:
        if task.hops >= self._settings.max_hops:
            return Keep(task_id=task.task_id, reason=f"{task.hops} hops: the holder executes")
        table, c = view.neighbours, view.type_index[task.task_type]
        if not table.ids_J:
            return Keep(task_id=task.task_id, reason="no out-neighbour")
        excluded = view.unreachable if task.previous is None else view.unreachable | {task.previous}
        situation = Situation(
            type_index=c,
            waiting=view.waiting_T[c] + 1,
            quality=view.quality_T[c],
            neighbours=table,
            excluded=excluded,
            quality_weight=view.quality_weight,
            margin=self._settings.margin,
            now_s=now_s,
        )
        choice = self._policy(situation, rng)
        candidates = self._candidates(choice, situation)
        if choice.column is None:
            return Keep(task_id=task.task_id, reason="no score above the margin", candidates=candidates)
        return ForwardTo(
            task_id=task.task_id,
            to=table.ids_J[choice.column],
            reason="best score above the margin",
            candidates=candidates,
        )

    def _candidates(self, choice: Choice, situation: Situation) -> tuple[Candidate, ...]:
        """The best-scored neighbours as the decision saw them, for the record."""
        if not self._recorded:
            return ()
        table, c = situation.neighbours, situation.type_index
        best_K = np.argsort(-choice.scores_J, kind="stable")[: self._recorded]
        columns = (
            best_K,
            choice.scores_J[best_K],
            table.waiting_TJ[c][best_K],
            table.quality_TJ[c][best_K],
            situation.now_s - table.measured_at_s_J[best_K],
        )
        return tuple(
            Candidate(
                agent=table.ids_J[j],
                score=score,
                waiting=int(waiting),
                quality=quality,
                age_s=None if age_s == np.inf else age_s,
            )
            for j, score, waiting, quality, age_s in zip(
                *(column.tolist() for column in columns), strict=True
            )
            if score != -np.inf
        )
