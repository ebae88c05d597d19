"""Properties of many agents at work: what must hold on any graph, in any order of events, under any faults."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.agent.events import Restore
from actors.config import AgentSettings, BackpressureSettings
from actors.messages import Cancel, SetPhase
from actors.metrics import ArrivalRecord, DecisionRecord
from actors.routing.policies import POLICIES
from actors.routing.quality import Counts
from actors.task import AgentId, Task
from tests.actors.network import Faults, Network, Wanderer
from tests.actors.samples import A, B, C, make_task

share = st.sampled_from((0.0, 0.1, 0.4))
slow = st.sampled_from((0.0, 0.98))
weights = st.sampled_from((0.0, 5.0, 20.0, 80.0))


@st.composite
def routings(draw: st.DrawFn) -> BackpressureSettings | None:
    """Every policy with any of the ways to route; None: tasks wander about."""
    policy = draw(st.sampled_from(("wander", *POLICIES)))
    if policy == "wander":
        return None
    return BackpressureSettings(
        policy=policy,
        quality_weight=draw(weights),
        margin=draw(st.sampled_from((0.0, 1.0))),
        route_on_arrival=draw(st.booleans()),
        pull=draw(st.booleans()),
        forwards_hold_slots=draw(st.booleans()),
        count_in_flight=draw(st.booleans()),
        margin_per_age_s=draw(st.sampled_from((0.0, 10.0))),
        sampled_neighbours=draw(st.integers(0, 2)),
        queue_order=draw(st.sampled_from(("longest", "longest_then_oldest", "oldest"))),
        exploration=draw(st.sampled_from(("none", "upper_bound", "thompson"))),
        latency_target_s=draw(st.sampled_from((None, 0.5))),
    )


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Any directed graph without loops, also with agents that have no way out."""
    size = draw(st.integers(1, 6))
    edges = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))))
    return [sorted(j for i, j in edges if i == agent and j != agent) for agent in range(size)]


def loaded(
    out_N: list[list[int]], routing: BackpressureSettings | None, faults: Faults, seed: int, tasks: int = 20
) -> Network:
    """A network with tasks on their way to it. Without a routing its tasks wander about."""
    mechanism = routing or BackpressureSettings()
    network = Network(
        out_N=out_N, types=(A, B, C), settings=AgentSettings(mechanism=mechanism), seed=seed, faults=faults,
        mechanism=(lambda agent: Wanderer()) if routing is None else None,
    )  # fmt: skip
    chance = np.random.default_rng(seed)
    for agent in range(len(out_N)):
        wins = tuple(int(n) for n in chance.integers(0, 20, 3))
        losses = tuple(int(n) for n in chance.integers(0, 20, 3))
        counts = Counts(successes_T=wins, failures_T=losses)
        network.states[agent].handle(Restore(counts=counts, credited=()), 0.0, chance)
    network.broadcast(
        SetPhase(
            phase="test", quality_weight=mechanism.quality_weight, frozen=mechanism.exploration == "none"
        )
    )
    for number in range(tasks):
        task = make_task(f"t{number}", (A, B, C)[int(chance.integers(3))])
        network.submit(int(chance.integers(len(out_N))), task)
    return network


@settings(max_examples=60)
@given(
    out_N=graphs(),
    routing=routings(),
    faults=st.builds(Faults, slow_answers=slow, lost=share, split=share, failed=share),
    seed=st.integers(0, 2**16),
)
def test_each_task_ends_exactly_once(
    out_N: list[list[int]], routing: BackpressureSettings | None, faults: Faults, seed: int
) -> None:
    network = loaded(out_N, routing, faults, seed)
    assert network.run(), "the network never came to rest"
    assert sorted(o.task.task_id for o in network.outcomes) == sorted(f"t{n}" for n in range(20))
    assert network.holding() == []
    for outcome in network.outcomes:
        assert (outcome.answer is None) != (outcome.error is None)
        assert [step.kind for step in outcome.task.steps[:-1]] == ["split"] * outcome.task.splits
        assert outcome.task.splits <= 5


@settings(max_examples=60)
@given(
    out_N=graphs(),
    routing=routings(),
    faults=st.builds(Faults, slow_answers=slow, duplicated=st.sampled_from((0.1, 0.4)), split=share),
    seed=st.integers(0, 2**16),
)
def test_repeated_messages_change_nothing(
    out_N: list[list[int]], routing: BackpressureSettings | None, faults: Faults, seed: int
) -> None:
    network = loaded(out_N, routing, faults, seed)
    assert network.run()
    assert Counter(o.task.task_id for o in network.outcomes) == Counter(f"t{n}" for n in range(20))


@settings(max_examples=100)
@given(
    out_N=graphs(),
    routing=routings(),
    faults=st.builds(
        Faults,
        slow_answers=slow,
        lost=share,
        unanswered=st.sampled_from((0.1, 0.4)),
        duplicated=share,
        split=share,
        failed=share,
    ),
    seed=st.integers(0, 2**16),
)
def test_no_task_is_lost_where_answers_get_lost(
    out_N: list[list[int]], routing: BackpressureSettings | None, faults: Faults, seed: int
) -> None:
    """A hand-over that arrived without an answer leaves two copies: work is done twice, never not at all. (The
    intake takes the first report.)"""
    network = loaded(out_N, routing, faults, seed)
    assert network.run()
    assert {o.task.task_id for o in network.outcomes} == {f"t{n}" for n in range(20)}
    assert network.holding() == []


@settings(max_examples=60)
@given(
    out_N=graphs(),
    routing=routings(),
    faults=st.builds(Faults, slow_answers=slow, lost=share, split=share),
    seed=st.integers(0, 2**16),
    steps=st.integers(0, 200),
)
def test_cancel_gives_exactly_one_report_wherever_the_task_is(
    out_N: list[list[int]], routing: BackpressureSettings | None, faults: Faults, seed: int, steps: int
) -> None:
    network = loaded(out_N, routing, faults, seed)
    network.run(steps)
    for number in range(0, 20, 2):
        network.broadcast(Cancel(task_id=make_task(f"t{number}").task_id))
    assert network.run()
    assert Counter(o.task.task_id for o in network.outcomes) == Counter(f"t{n}" for n in range(20))
    errors = {o.task.task_id: o.error for o in network.outcomes if o.error is not None}
    assert set(errors.values()) <= {"cancelled"}
    assert {task_id for task_id in errors if int(task_id[1:]) % 2} == set()


def test_a_cancelled_task_is_given_up_even_if_it_is_handed_over_all_the_time() -> None:
    """Cancels that arrive before any task: all even tasks end cancelled, none is executed."""
    network = loaded([[1], [2], [0]], BackpressureSettings(), Faults(), seed=3)
    for number in range(20):
        network.broadcast(Cancel(task_id=make_task(f"t{number}").task_id))
    network.disorder = False
    assert network.run()
    assert Counter(o.error for o in network.outcomes) == {"cancelled": 20}


def test_the_network_forwards_splits_and_returns() -> None:
    """The properties above would prove nothing on a network in which nothing happens."""
    faults = Faults(lost=0.2, unanswered=0.2, duplicated=0.2, split=0.3)
    network = loaded([[1, 2], [0, 2], [0, 1]], None, faults, seed=1, tasks=100)
    assert network.run()
    how = Counter(record.how for record in network.records if isinstance(record, ArrivalRecord))
    assert min(how[kind] for kind in ("submitted", "forwarded", "split", "returned")) > 5
    hops = Counter(record.hops for record in network.records if isinstance(record, DecisionRecord))
    assert set(hops) == {0, 1, 2, 3}


# Shares, in order and under virtual time


def shares(
    quality_weight: float, wins: tuple[int, ...], seed: int, *, load: float = 0.8, tasks: int = 600
) -> list[float]:
    """Share of finished tasks by agent in a pool of three, each with 9 slots, `wins` of 98 credited tasks and
    the same arrivals, which ask for a share `load` of all slots."""
    out_N = [[1, 2], [0, 2], [0, 1]]
    network = Network(
        out_N=out_N, types=(A,), settings=AgentSettings(), seed=seed, slots=9, disorder=False,
        service_s=lambda agent, task: 1.0,
    )  # fmt: skip
    chance = np.random.default_rng(seed)
    for agent, won in enumerate(wins):
        counts = Counts(successes_T=(won,), failures_T=(98 - won,))
        network.states[agent].handle(Restore(counts=counts, credited=()), 0.0, chance)
    network.broadcast(SetPhase(phase="test", quality_weight=quality_weight, frozen=True))
    at_s = 0.1
    for number in range(tasks):
        at_s += float(chance.exponential(1 / (load * 27)))
        network.submit(int(chance.integers(3)), make_task(f"t{number}"), after_s=at_s)
    assert network.run()
    finished = Counter(outcome.finisher for outcome in network.outcomes)
    return [finished[AgentId(agent)] / tasks for agent in range(3)]


@pytest.mark.parametrize("seed", range(5))
def test_without_quality_a_symmetric_pool_shares_evenly(seed: int) -> None:
    """Arrivals at every agent alike, V = 0: each share is within 0.06 of a third (600 tasks; one standard
    deviation of the arrivals alone is 0.02)."""
    assert shares(0.0, (49, 49, 49), seed) == pytest.approx([1 / 3] * 3, abs=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_the_strongest_agent_works_more_as_quality_weighs_more(seed: int) -> None:
    busy = [shares(weight, (49, 88, 49), seed)[1] for weight in (0.0, 5.0, 20.0, 80.0)]
    assert busy == sorted(busy)
    assert busy[0] == pytest.approx(1 / 3, abs=0.06)
    assert busy[-1] > 9 / (0.8 * 27), "its slots are full"
    quiet = [shares(weight, (49, 88, 49), seed, load=0.2)[1] for weight in (0.0, 80.0)]
    assert quiet[0] == pytest.approx(1 / 3, abs=0.06)
    assert quiet[-1] > 0.99


def test_a_task_is_forwarded_no_further_than_the_settings_allow() -> None:
    """On a one-way ring whose next agent is always better, a task goes as far as it may."""
    settings_ = AgentSettings()
    for limit in range(4):
        mechanism = settings_.mechanism.model_copy(update={"max_hops": limit})
        network = Network(
            out_N=[[1], [2], [3], [4], [0]], types=(A,), disorder=False, seed=1,
            settings=settings_.model_copy(update={"mechanism": mechanism}),
        )  # fmt: skip
        rng = np.random.default_rng(1)
        for agent in range(5):
            counts = Counts(successes_T=(20 * agent,), failures_T=(100 - 20 * agent,))
            network.states[agent].handle(Restore(counts=counts, credited=()), 0.0, rng)
        network.broadcast(SetPhase(phase="test", quality_weight=80.0, frozen=True))
        network.run()
        task: Task = replace(make_task("t"), age_s=0.0)
        network.submit(0, task)
        assert network.run()
        assert [outcome.finisher for outcome in network.outcomes] == [AgentId(limit)]
