"""How a neighbour is chosen for one task: a policy is one function, entered in `POLICIES`. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from actors.routing.scores import Floats, backpressure_scores, drain_time_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a policy may look at when it routes one task. Axis J: out-neighbours by ascending agent id.

    The task being routed counts as part of its own agent's backlog and load.
    """

    waiting: float
    """Own backlog of the task's type (tasks)."""
    waiting_J: Floats
    load: float
    """Own tasks of all types, waiting or in service."""
    load_J: Floats
    slots: float
    slots_J: Floats
    service_s: float
    """Own recent mean time of an execution step; 0 where none is known."""
    service_s_J: Floats
    quality: float
    """Own success estimate for the type."""
    quality_J: Floats
    closed: Sequence[int]
    """Columns that may not be chosen: the task's previous agent, and neighbours that a hand-over failed for."""
    quality_weight: float
    """V."""
    margin: Floats | float
    """What a score must exceed; one for each neighbour where views of different age are trusted differently."""
    tries: float = 0.0
    """Own verdicts on the type."""
    tries_J: Floats | None = None
    """None where neighbours do not tell theirs."""
    hops: int = 0
    """Forwards of the task so far."""
    turn: int = 0
    """Decisions that this agent made before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A policy's answer."""

    column: int | None
    """Neighbour to forward to; None: keep."""
    scores_J: Floats
    """Score of each neighbour, minus infinity where it could not be chosen."""


Policy = Callable[[Situation, np.random.Generator], Choice]


def _best_above(scores_J: Floats, margin: Floats | float, closed: Sequence[int]) -> Choice:
    """The neighbour whose score exceeds its margin by most; ties go to the smallest index."""
    for column in closed:
        scores_J[column] = -np.inf
    if not len(scores_J):
        return Choice(column=None, scores_J=scores_J)
    above_J = scores_J - margin if isinstance(margin, np.ndarray) else scores_J
    best = int(above_J.argmax())
    needed = 0.0 if isinstance(margin, np.ndarray) else margin
    return Choice(column=best if above_J[best] > needed else None, scores_J=scores_J)


def _open_columns(situation: Situation) -> list[int]:
    closed = set(situation.closed)
    return [column for column in range(len(situation.waiting_J)) if column not in closed]


def _placed(situation: Situation, column: int | None) -> Choice:
    """A choice that rests on no score."""
    scores_J = np.zeros(len(situation.waiting_J))
    scores_J[list(situation.closed)] = -np.inf
    return Choice(column=column, scores_J=scores_J)


def deals(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - the paper's rule is deterministic
    """Forward to the neighbour with the best backlog-and-quality differential if it exceeds the margin; ties
    go to the smallest index (DEALS section 3.2, appendix A)."""
    scores_J = backpressure_scores(
        situation.waiting,
        situation.waiting_J,
        situation.quality,
        situation.quality_J,
        situation.quality_weight,
    )
    return _best_above(scores_J, situation.margin, situation.closed)


def drain_time(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - deterministic
    """As `deals`, but an agent's price is the time in which it would drain all that it has: its slots serve all
    types. V then reads: mean step times that one would wait for certainty of success."""
    scores_J = drain_time_scores(
        situation.load / situation.slots,
        situation.load_J / situation.slots_J,
        situation.service_s,
        situation.service_s_J,
        situation.quality_weight * (situation.quality_J - situation.quality),
    )
    return _best_above(scores_J, situation.margin, situation.closed)


def best_quality(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - deterministic
    """The neighbour with the highest success estimate, where it is above one's own; backlogs do not matter."""
    return _best_above(situation.quality_J - situation.quality, 0.0, situation.closed)


def join_shortest(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - deterministic
    """Join the shortest queue (Winston 1977), once: the agent with the least load, waiting and in service."""
    if situation.hops:
        return _placed(situation, None)
    # Without the task itself: it would be added wherever it goes.
    return _best_above(situation.load - 1 - situation.load_J, 0.0, situation.closed)


def power_of_two(situation: Situation, rng: np.random.Generator) -> Choice:
    """Of two agents drawn at random, oneself among the drawable, the one with less load, once (Mitzenmacher
    2001)."""
    columns = _open_columns(situation)
    if situation.hops or not columns:
        return _placed(situation, None)
    first, second = rng.choice(len(columns) + 1, size=2, replace=False).tolist()

    def load(draw: int) -> float:
        return float(situation.load_J[columns[draw]]) if draw < len(columns) else situation.load - 1

    drawn = first if load(first) <= load(second) else second
    return _placed(situation, columns[drawn] if drawn < len(columns) else None)


def at_random(situation: Situation, rng: np.random.Generator) -> Choice:
    """Any agent, oneself included, with equal chances, once."""
    columns = _open_columns(situation)
    draw = int(rng.integers(len(columns) + 1)) if situation.hops == 0 else len(columns)
    return _placed(situation, columns[draw] if draw < len(columns) else None)


def round_robin(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - deterministic
    """Each agent in turn, oneself included, once."""
    columns = _open_columns(situation)
    draw = situation.turn % (len(columns) + 1) if situation.hops == 0 else len(columns)
    return _placed(situation, columns[draw] if draw < len(columns) else None)


def least_tried(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - deterministic
    """To whoever has the fewest verdicts on the type, waiting tasks counted as if they had theirs: for a warm-up
    that shall know every (agent, type) alike. Ties stay."""
    tries_J = np.zeros(len(situation.waiting_J)) if situation.tries_J is None else situation.tries_J
    ahead = situation.tries + situation.waiting - 1
    return _best_above(ahead - tries_J - situation.waiting_J, 0.0, situation.closed)


def keep(situation: Situation, rng: np.random.Generator) -> Choice:  # noqa: ARG001 - deterministic
    """Never forward: for single agents, and for executors that decide themselves."""
    return _placed(situation, None)


POLICIES: Mapping[str, Policy] = {
    "deals": deals,
    "drain_time": drain_time,
    "best_quality": best_quality,
    "join_shortest": join_shortest,
    "power_of_two": power_of_two,
    "random": at_random,
    "round_robin": round_robin,
    "least_tried": least_tried,
    "keep": keep,
}
PLACEMENTS = frozenset({"join_shortest", "power_of_two", "random", "round_robin"})
"""Those that decide once for each task: what was placed when it arrived is not looked at again."""
