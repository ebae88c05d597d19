"""Backpressure as a mechanism: decides from local information, at dispatch and where asked on arrival. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from actors.backpressure.messages import PullRefused, PullRequest
from actors.backpressure.pulling import best_pull
from actors.backpressure.situations import closed_columns, situation_of
from actors.backpressure.weight import QualityWeight
from actors.config import BackpressureSettings
from actors.errors import SettingsError
from actors.mechanism import (
    Arrived,
    Completed,
    Dispatched,
    ForwardTo,
    Idle,
    Keep,
    LocalView,
    MechanismCommand,
    MechanismEvent,
    PeerSaid,
    Tell,
)
from actors.metrics import Candidate
from actors.routing.policies import PLACEMENTS, POLICIES, Choice, Policy, Situation
from actors.task import AgentId, Task, TaskType

PULL_PATIENCE_S = 1.0
"""A request that was not answered by then is as good as lost; another may follow."""


def _policy(setting: str, name: str) -> Policy:
    if name not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise SettingsError(f"mechanism.{setting} {name!r} is unknown; choose one of: {known}")
    return POLICIES[name]


class Backpressure:
    """DEALS section 3.2: score every out-neighbour but the task's previous agent; forward to the best if its
    score exceeds the margin and fewer than `max_hops` forwards were made; else keep. Which score, and when else
    a task is routed, are settings."""

    def __init__(self, settings: BackpressureSettings, recorded_candidates: int) -> None:
        self._settings = settings
        self._names = {False: settings.policy, True: settings.warmup_policy or settings.policy}
        self._policies = {
            False: _policy("policy", self._names[False]),
            True: _policy("warmup_policy", self._names[True]),
        }
        self._recorded = recorded_candidates
        self._weight = QualityWeight(settings.latency_target_s)
        self._decisions = 0
        self._asked_until_s = -np.inf
        self._refused: dict[int, tuple[int, int]] = {}

    def on_event(
        self, event: MechanismEvent, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> list[MechanismCommand]:
        match event:
            case Dispatched(task=task):
                self._asked_until_s = -np.inf  # there is work; the next idle moment may ask anew
                if self._settings.route_on_arrival and self._names[view.warmup] in PLACEMENTS:
                    return [Keep(task_id=task.task_id, reason="placed when it arrived")]
                return [self._route(task, view, now_s, rng)]
            case Arrived(task=task):
                answer = self._route(task, view, now_s, rng, extra=1)
                return [answer] if isinstance(answer, ForwardTo) else []
            case Idle():
                return self._ask(view, now_s)
            case PeerSaid(sender=sender, body=PullRequest(task_type=task_type)):
                return [self._give(sender, task_type, view, now_s, rng)]
            case PeerSaid(sender=sender, body=PullRefused()):
                self._asked_until_s = -np.inf
                if (column := view.neighbours.column.get(sender)) is not None:
                    self._refused[column] = view.neighbours.stamp(column)
            case Completed(age_s=age_s):
                self._weight.ended(age_s, view.quality_weight)
            case _:
                pass
        return []

    def _route(
        self, task: Task, view: LocalView, now_s: float, rng: np.random.Generator, *, extra: int = 0
    ) -> Keep | ForwardTo:
        if task.hops >= self._settings.max_hops:
            return Keep(task_id=task.task_id, reason=f"{task.hops} hops: the holder executes")
        if not view.neighbours.ids_J:
            return Keep(task_id=task.task_id, reason="no out-neighbour")
        closed = closed_columns(self._settings, view, task.previous, rng)
        situation = self._situation(task, view, now_s, rng, extra, closed)
        choice = self._policies[view.warmup](situation, rng)
        self._decisions += 1
        candidates = self._candidates(choice, situation, view, now_s)
        if choice.column is None:
            return Keep(task_id=task.task_id, reason="no score above the margin", candidates=candidates)
        return ForwardTo(
            task_id=task.task_id,
            to=view.neighbours.ids_J[choice.column],
            reason="best score above the margin",
            candidates=candidates,
        )

    def _situation(
        self,
        task: Task,
        view: LocalView,
        now_s: float,
        rng: np.random.Generator,
        extra: int,
        closed: Sequence[int],
    ) -> Situation:
        return situation_of(
            self._settings,
            view,
            now_s,
            rng,
            type_index=view.type_index[task.task_type],
            extra=extra,
            closed=closed,
            quality_weight=self._weight.of(view.quality_weight),
            hops=task.hops,
            turn=self._decisions,
        )

    # Pulling

    def _ask(self, view: LocalView, now_s: float) -> list[MechanismCommand]:
        """One request at a time: an answer brings the next."""
        if now_s < self._asked_until_s:
            return []
        weight = self._weight.of(view.quality_weight)
        found = best_pull(view, weight, self._refused)
        if found is None:
            return []
        self._asked_until_s = now_s + PULL_PATIENCE_S
        neighbour, c = found
        task_type = next(name for name, index in view.type_index.items() if index == c)
        return [Tell(to=neighbour, body=PullRequest(task_type=TaskType(task_type)))]

    def _give(
        self, asker: AgentId, task_type: TaskType, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> ForwardTo | Tell:
        """The oldest waiting task that may go to the asker, if the policy's score says that it should."""
        column, c = view.neighbours.column.get(asker), view.type_index.get(task_type)
        if column is not None and c is not None:
            for task in view.queued.oldest(c):
                if task.previous == asker or task.hops >= self._settings.max_hops:
                    continue
                closed = [other for other in range(len(view.neighbours.ids_J)) if other != column]
                situation = replace(self._situation(task, view, now_s, rng, 0, closed), margin=0.0)
                choice = self._policies[view.warmup](situation, rng)
                if choice.column != column:
                    break
                candidates = self._candidates(choice, situation, view, now_s)
                return ForwardTo(task_id=task.task_id, to=asker, reason="pulled", candidates=candidates)
        return Tell(to=asker, body=PullRefused())

    def _candidates(
        self, choice: Choice, situation: Situation, view: LocalView, now_s: float
    ) -> tuple[Candidate, ...]:
        """The best-scored neighbours as the decision saw them, for the record."""
        if not self._recorded:
            return ()
        table = view.neighbours
        best_K = np.argsort(-choice.scores_J, kind="stable")[: self._recorded]
        columns = (
            best_K,
            choice.scores_J[best_K],
            situation.waiting_J[best_K],
            situation.quality_J[best_K],
            now_s - table.measured_at_s_J[best_K],
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
