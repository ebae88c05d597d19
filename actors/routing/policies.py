"""How a neighbour is chosen for one task: a policy is one function, entered in `POLICIES`. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from actors.routing.scores import Floats, backpressure_scores
from actors.routing.view import NeighbourTable
from actors.task import AgentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a policy may look at when it routes one task."""

    type_index: int
    waiting: float
    """Own backlog of the type, the task being routed included (tasks)."""
    quality: float
    """Own success estimate for the type."""
    neighbours: NeighbourTable
    excluded: frozenset[AgentId]
    """The task's previous agent, and neighbours that a hand-over has just failed for."""
    quality_weight: float
    margin: float
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A policy's answer."""

    column: int | None
    """Column of the neighbour table to forward to; None: keep."""
    scores_J: Floats
    """Score of each neighbour, minus infinity where it was excluded."""


Policy = Callable[[Situation, np.random.Generator], Choice]


def deals(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - the paper's rule is deterministic
    """Forward to the neighbour with the best backlog-and-quality differential if it exceeds the margin; ties
    go to the smallest index (DEALS section 3.2, appendix A)."""
    table, c = situation.neighbours, situation.type_index
    scores_J = backpressure_scores(
        situation.waiting,
        table.waiting_TJ[c],
        situation.quality,
        table.quality_TJ[c],
        situation.quality_weight,
    )
    for agent in situation.excluded:
        if (column := table.column.get(agent)) is not None:
            scores_J[column] = -np.inf
    if not len(scores_J):
        return Choice(column=None, scores_J=scores_J)
    best = int(scores_J.argmax())
    return Choice(column=best if scores_J[best] > situation.margin else None, scores_J=scores_J)


POLICIES: Mapping[str, Policy] = {"deals": deals}
