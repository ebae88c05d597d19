"""Idle agents that ask for work: whom, for what, and what the one that is asked gives. Pure."""

from collections.abc import Mapping

import numpy as np

from actors.mechanism import LocalView
from actors.routing.scores import pull_scores
from actors.task import AgentId


def best_pull(
    view: LocalView, quality_weight: float, refused: Mapping[int, tuple[int, int]]
) -> tuple[AgentId, int] | None:
    """(neighbour, type) whose waiting task would gain most by coming here, as far as its last view tells; None
    where nobody has one that gains. There is no margin: the slot would stand empty. `refused` is, by column, the
    view with which a neighbour refused: as long as nothing new is heard of it, it is not asked again."""
    table = view.neighbours
    if not table.waiting_TJ.any():
        return None
    scores_TJ = pull_scores(
        table.waiting_TJ,
        table.load_J / table.slots_J,
        view.in_service / view.slots,
        view.quality_T,
        table.quality_TJ,
        quality_weight,
    )
    for agent in view.unreachable:
        if (column := table.column.get(agent)) is not None:
            scores_TJ[:, column] = -np.inf
    for column, stamp in refused.items():
        if table.stamp(column) == stamp:
            scores_TJ[:, column] = -np.inf
    c, j = divmod(int(scores_TJ.argmax()), scores_TJ.shape[1])
    return (table.ids_J[j], c) if scores_TJ[c, j] > 0 else None
