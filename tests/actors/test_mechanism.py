"""Backpressure as a mechanism, and a mechanism that talks to its peers before it decides."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.agent.queues import TypedQueues
from actors.backpressure.mechanism import Backpressure
from actors.config import AgentSettings, BackpressureSettings
from actors.errors import SettingsError
from actors.mechanism import (
    Dispatched,
    ForwardTo,
    Keep,
    LocalView,
    MechanismCommand,
    MechanismEvent,
    PeerSaid,
    SetTimer,
    Tell,
    TimerFired,
)
from actors.messages import MechanismBody
from actors.metrics import Candidate, DecisionRecord
from actors.routing.view import NeighbourTable
from actors.task import AgentId, Task, TaskId
from tests.actors.network import Faults, Network
from tests.actors.samples import TYPES, A, agents, make_task, make_view

RNG = np.random.default_rng(1)


def local_view(
    waiting: tuple[int, int, int] = (5, 0, 0),
    *,
    others: tuple[tuple[int, int], ...] = ((1, 0), (2, 2)),
    quality_weight: float = 0.0,
    unreachable: frozenset[AgentId] = frozenset(),
    queued: TypedQueues | None = None,
) -> LocalView:
    """Agent 0; `others` are (agent, tasks of type a waiting there)."""
    table = NeighbourTable(agents(*(number for number, _ in others)), 3, 0.5)
    for number, tasks in others:
        table.merge(make_view(number, waiting=(tasks, 0, 0), age_s=1.0), 10.0)
    return LocalView(
        agent=AgentId(0),
        type_index={name: c for c, name in enumerate(TYPES)},
        waiting_T=np.array(waiting, dtype=float),
        quality_T=np.full(3, 0.5),
        tries_T=np.zeros(3),
        slots=1,
        in_service=1,
        service_s=0.0,
        neighbours=table,
        quality_weight=quality_weight,
        learning=False,
        warmup=False,
        queued=queued or TypedQueues(TYPES),
        unreachable=unreachable,
    )


def decide(task: Task, view: LocalView, recorded: int = 16, **changes: object) -> list[MechanismCommand]:
    mechanism = Backpressure(BackpressureSettings(**changes), recorded)  # type: ignore[arg-type]
    return mechanism.on_event(Dispatched(task=task), view, 10.0, RNG)


def test_the_best_neighbour_gets_the_task_and_the_record_says_why() -> None:
    """The task being routed counts: 6 here against 0 and 2 there."""
    candidates = (
        Candidate(agent=AgentId(1), score=6.0, waiting=0, quality=0.5, age_s=1.0),
        Candidate(agent=AgentId(2), score=4.0, waiting=2, quality=0.5, age_s=1.0),
    )
    reason = "best score above the margin"
    assert decide(make_task("t"), local_view()) == [
        ForwardTo(task_id=TaskId("t"), to=AgentId(1), reason=reason, candidates=candidates)
    ]


def test_a_task_never_goes_straight_back() -> None:
    (answer,) = decide(make_task("t", previous=AgentId(1), hops=1), local_view())
    assert isinstance(answer, ForwardTo)
    assert answer.to == 2
    assert [c.agent for c in answer.candidates] == [2]
    assert isinstance(decide(make_task("t", previous=AgentId(1)), local_view(others=((1, 0),)))[0], Keep)


def test_an_unreachable_neighbour_is_avoided() -> None:
    (answer,) = decide(make_task("t"), local_view(unreachable=frozenset({AgentId(1)})))
    assert isinstance(answer, ForwardTo)
    assert answer.to == 2


@pytest.mark.parametrize(("hops", "kept"), [(0, False), (2, False), (3, True)])
def test_after_three_hops_the_holder_executes(hops: int, kept: bool) -> None:
    (answer,) = decide(make_task("t", hops=hops), local_view())
    assert isinstance(answer, Keep) == kept
    if isinstance(answer, Keep):
        assert answer.reason == "3 hops: the holder executes"


def test_a_task_is_kept_below_the_margin_and_without_neighbours() -> None:
    (answer,) = decide(make_task("t"), local_view((0, 0, 0), others=((1, 0),)))
    assert isinstance(answer, Keep)
    assert answer.reason == "no score above the margin"
    assert [c.score for c in answer.candidates] == [1.0]
    (answer,) = decide(make_task("t"), local_view(others=()))
    assert isinstance(answer, Keep)
    assert answer.reason == "no out-neighbour"


def test_quality_moves_a_task_against_the_backlog() -> None:
    view = local_view((0, 0, 0), others=((1, 3), (2, 0)), quality_weight=20.0)
    view.neighbours.quality_TJ[0] = (0.9, 0.5)
    (answer,) = decide(make_task("t"), view)
    assert isinstance(answer, ForwardTo)
    assert answer.to == 1, "1 - 3 + 20 * 0.4 = 6 beats 1 - 0 + 0"


def test_records_keep_the_best_candidates_only() -> None:
    others = tuple((number, number % 7) for number in range(1, 31))
    (answer,) = decide(make_task("t"), local_view((20, 0, 0), others=others), recorded=3)
    assert isinstance(answer, ForwardTo)
    assert [c.agent for c in answer.candidates] == [7, 14, 21]
    (answer,) = decide(make_task("t"), local_view((20, 0, 0), others=others), recorded=0)
    assert isinstance(answer, ForwardTo)
    assert answer.candidates == ()


def test_backpressure_has_no_use_for_messages() -> None:
    mechanism = Backpressure(BackpressureSettings(), 16)
    for event in (PeerSaid(sender=AgentId(1), body=MechanismBody()), TimerFired(key="k")):
        assert mechanism.on_event(event, local_view(), 0.0, RNG) == []


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'telepathy' is unknown; choose one of: .*deals"):
        Backpressure(BackpressureSettings(policy="telepathy"), 16)


# A mechanism that decides later


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(MechanismBody):
    """Who would take this task?"""

    task_id: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(MechanismBody):
    """I would, at this price."""

    task_id: TaskId
    price: float


class ToyContract:
    """Calls for bids, waits for all or for its timer, and awards to the cheapest; keeps the task without bids."""

    def __init__(self) -> None:
        self._bids: dict[TaskId, dict[AgentId, float]] = {}
        self._tasks: dict[TaskId, Task] = {}
        self.late = 0

    def on_event(
        self, event: MechanismEvent, view: LocalView, now_s: float, rng: np.random.Generator
    ) -> list[MechanismCommand]:
        match event:
            case Dispatched(task=task):
                asked = [j for j in view.neighbours.ids_J if j != task.previous]
                if task.hops >= 3 or not asked:
                    return [Keep(task_id=task.task_id, reason="nobody to ask")]
                self._tasks[task.task_id], self._bids[task.task_id] = task, {}
                tells: list[MechanismCommand] = [Tell(to=j, body=Call(task_id=task.task_id)) for j in asked]
                return [*tells, SetTimer(key=task.task_id, after_s=1.0)]
            case PeerSaid(sender=sender, body=Call(task_id=task_id)):
                price = float(view.waiting_T.sum()) + view.in_service
                return [Tell(to=sender, body=Bid(task_id=task_id, price=price))]
            case PeerSaid(sender=sender, body=Bid(task_id=task_id, price=price)):
                if task_id not in self._tasks:
                    self.late += 1
                    return []
                self._bids[task_id][sender] = price
                asked_of = len(view.neighbours.ids_J) - (self._tasks[task_id].previous is not None)
                return self._award(task_id, view) if len(self._bids[task_id]) >= asked_of else []
            case TimerFired(key=key):
                return self._award(TaskId(key), view)
            case _:
                return []

    def _award(self, task_id: TaskId, view: LocalView) -> list[MechanismCommand]:
        if self._tasks.pop(task_id, None) is None:
            return []
        bids = self._bids.pop(task_id)
        own = float(view.waiting_T.sum())
        best = min(bids, key=lambda j: (bids[j], j), default=None)
        if best is None or bids[best] >= own:
            return [Keep(task_id=task_id, reason="cheapest here")]
        return [ForwardTo(task_id=task_id, to=best, reason="cheapest bid")]


@settings(max_examples=40)
@given(
    lost=st.sampled_from((0.0, 0.3)),
    split=st.sampled_from((0.0, 0.3)),
    seed=st.integers(0, 2**16),
    size=st.integers(1, 4),
)
def test_a_mechanism_may_ask_its_peers_before_it_decides(
    lost: float, split: float, seed: int, size: int
) -> None:
    """Calls and bids may be lost: the timer decides, and no task is."""
    out_N = [[j for j in range(size) if j != i] for i in range(size)]
    network = Network(
        out_N=out_N, types=(A,), settings=AgentSettings(), seed=seed, slots=3,
        faults=Faults(lost=lost, split=split), mechanism=lambda agent: ToyContract(),
    )  # fmt: skip
    for number in range(20):
        network.submit(0, make_task(f"t{number}"))
    assert network.run()
    assert Counter(o.task.task_id for o in network.outcomes) == Counter(f"t{n}" for n in range(20))
    assert network.holding() == []


def test_bids_move_tasks() -> None:
    network = Network(
        out_N=[[1, 2], [0, 2], [0, 1]], types=(A,), settings=AgentSettings(), seed=1, slots=3, disorder=False,
        mechanism=lambda agent: ToyContract(),
    )  # fmt: skip
    for number in range(30):
        network.submit(0, make_task(f"t{number}"))
    assert network.run()
    finishers = Counter(outcome.finisher for outcome in network.outcomes)
    assert set(finishers) == {0, 1, 2}
    reasons = {r.reason for r in network.records if isinstance(r, DecisionRecord)}
    assert "cheapest bid" in reasons
