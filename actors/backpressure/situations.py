"""From an agent's local view to what a policy looks at: backlogs in flight, views' ages, uncertain estimates. Pure."""

from collections.abc import Sequence

import numpy as np

from actors.config import BackpressureSettings
from actors.mechanism import LocalView
from actors.routing.policies import Situation
from actors.routing.scores import Floats, posterior_spread
from actors.task import AgentId


def situation_of(
    settings: BackpressureSettings,
    view: LocalView,
    now_s: float,
    rng: np.random.Generator,
    *,
    type_index: int,
    extra: int,
    closed: Sequence[int],
    quality_weight: float,
    hops: int,
    turn: int,
) -> Situation:
    """The situation of one task; `extra` is 1 where it is neither in a queue nor in a slot of this agent."""
    table, c = view.neighbours, type_index
    waiting_J, load_J = table.waiting_TJ[c], table.load_J
    if settings.count_in_flight:
        waiting_J = waiting_J + table.in_flight_TJ[c]
        load_J = load_J + table.in_flight_TJ.sum(axis=0)
    quality, quality_J = _qualities(settings, view, c, rng)
    margin: Floats | float = settings.margin
    if settings.margin_per_age_s:
        age_s_J = np.where(np.isfinite(table.measured_at_s_J), now_s - table.measured_at_s_J, 0.0)
        margin = settings.margin + settings.margin_per_age_s * age_s_J
    return Situation(
        waiting=view.waiting_T[c] + 1,
        waiting_J=waiting_J,
        load=float(len(view.queued) + view.in_service + extra),
        load_J=load_J,
        slots=view.slots,
        slots_J=table.slots_J,
        service_s=view.service_s,
        service_s_J=table.service_s_J,
        quality=quality,
        quality_J=quality_J,
        closed=closed,
        quality_weight=quality_weight,
        margin=margin,
        tries=float(view.tries_T[c]),
        tries_J=table.tries_TJ[c],
        hops=hops,
        turn=turn,
    )


def _qualities(
    settings: BackpressureSettings, view: LocalView, c: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """Own and neighbours' estimates as this decision takes them. While verdicts count, an uncertain estimate may
    be worth a try: by its upper confidence bound (Auer 2002), or by a draw from its Beta posterior (Thompson
    1933)."""
    quality, quality_J = float(view.quality_T[c]), view.neighbours.quality_TJ[c]
    if settings.exploration == "none" or not view.learning:
        return quality, quality_J
    quality_K = np.append(quality_J, quality)
    tries_K = np.append(view.neighbours.tries_TJ[c], view.tries_T[c])
    if settings.exploration == "upper_bound":
        quality_K = quality_K + settings.exploration_weight * posterior_spread(quality_K, tries_K)
    else:
        weight_K = tries_K + 2
        quality_K = rng.beta(quality_K * weight_K, (1 - quality_K) * weight_K)
    return float(quality_K[-1]), quality_K[:-1]


def closed_columns(
    settings: BackpressureSettings,
    view: LocalView,
    previous: AgentId | None,
    rng: np.random.Generator,
) -> Sequence[int]:
    """Columns a task may not go to: straight back, to an agent that does not answer, or, on a large graph, to
    those outside of the sample that this decision looks at."""
    column = view.neighbours.column
    closed = [column[agent] for agent in view.unreachable if agent in column] if view.unreachable else []
    if previous is not None and previous in column:
        closed.append(column[previous])
    count = len(view.neighbours.ids_J)
    if 0 < settings.sampled_neighbours < count:
        drawn = set(rng.choice(count, size=settings.sampled_neighbours, replace=False).tolist())
        closed += [j for j in range(count) if j not in drawn]
    return closed
