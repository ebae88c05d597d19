"""What goes beyond the paper's rule: routing on arrival, pulling, hand-overs without a slot, and the rest."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from actors.agent.events import Delivered, Execute, Executed, Received, Restore, Send
from actors.agent.queues import TypedQueues
from actors.backpressure.messages import PullRefused, PullRequest
from actors.backpressure.weight import QualityWeight
from actors.config import AgentSettings, BackpressureSettings
from actors.messages import Body, Credit, Forward, Gossip, SetPhase, Submit
from actors.routing.quality import Counts
from actors.routing.scores import posterior_spread
from actors.task import AgentId, TaskId, TaskType
from tests.actors.network import Network
from tests.actors.samples import A, B, C, OneAgent, agent, answered, make_task, make_view, sent, submit


def settings_of(**mechanism: object) -> AgentSettings:
    return AgentSettings(mechanism=BackpressureSettings(**mechanism))  # type: ignore[arg-type]


def one_agent(slots: int = 1, **mechanism: object) -> OneAgent:
    return OneAgent(settings=settings_of(**mechanism), slots=slots)


# On arrival


def hears(one: OneAgent, number: int, **view: object) -> None:
    one.feed(one.says(number, Gossip(view=make_view(number, **view))))  # type: ignore[arg-type]


def test_a_task_is_routed_before_it_is_queued() -> None:
    """The only slot is busy, yet the task goes on at once, and holds no slot on its way."""
    one = one_agent(policy="drain_time", route_on_arrival=True, margin=0.0)
    hears(one, 1, waiting=(9, 0, 0))
    hears(one, 2, waiting=(9, 0, 0))
    assert one.acts(one.message(submit("first"))) == [Execute(task=make_task("first"))]
    hears(one, 1, version=2, waiting=(0, 0, 0))
    (envelope,) = sent(one.feed(one.message(submit("second"))), Forward)
    assert envelope.body.task.task_id == "second"
    assert (one.state.view().in_service, one.state.view().waiting_T) == (1, (0, 0, 0))
    assert [task.task_id for task in one.state.held()] == ["first", "second"], (
        "kept until the receiver has it"
    )
    one.feed(Delivered(task_id=TaskId("second"), forwards=1, to=agent(1), view=None))
    assert [task.task_id for task in one.state.held()] == ["first"]


def test_a_task_that_stays_is_queued_and_checked_again_at_dispatch() -> None:
    one = one_agent(policy="deals", route_on_arrival=True)
    for number in (1, 2):
        hears(one, number, waiting=(9, 0, 0))
    one.feed(one.message(submit("first")))
    assert one.acts(one.message(submit("second"))) == [], "its neighbours are busier: it waits"
    assert one.acts(one.message(submit("third"))) == []
    hears(one, 2, version=2)
    (envelope,) = sent(one.feed(Executed(task_id=TaskId("first"), result=answered(0))), Forward)
    assert envelope.body.task.task_id == "second", "neighbour 2 is idle by now"


@pytest.mark.parametrize(("policy", "looks_again"), [("join_shortest", False), ("deals", True)])
def test_what_was_placed_when_it_arrived_is_not_looked_at_again(policy: str, looks_again: bool) -> None:
    one = one_agent(policy=policy, route_on_arrival=True)
    for number in (1, 2):
        hears(one, number, waiting=(9, 0, 0))
    one.feed(one.message(submit("first")))
    for name in ("second", "third", "fourth"):
        assert one.acts(one.message(submit(name))) == []
    hears(one, 1, version=2, waiting=(0, 0, 0))
    commands = one.feed(Executed(task_id=TaskId("first"), result=answered(0)))
    executed = [command.task.task_id for command in commands if isinstance(command, Execute)]
    assert bool(sent(commands, Forward)) == looks_again
    assert executed == ([] if looks_again else ["second"])


@pytest.mark.parametrize("holds", [True, False])
def test_a_hand_over_holds_its_slot_as_in_the_paper_or_frees_it(holds: bool) -> None:
    one = one_agent(policy="deals", forwards_hold_slots=holds)
    for number in (1, 2):
        hears(one, number, waiting=(9, 0, 0))
    for name in ("first", "second", "third"):
        one.feed(one.message(submit(name)))
    hears(one, 1, version=2)
    commands = one.feed(Executed(task_id=TaskId("first"), result=answered(0)))
    assert len(sent(commands, Forward)) == 1, "the third is alone then: its score is at the margin"
    assert (Execute in map(type, commands)) != holds


# Pulling


def asks(one: OneAgent, event: Received, after_s: float = 0.0) -> list[tuple[str, Body]]:
    """(receiver, body) of the requests that an event leads to."""
    commands = [c for c in one.feed(event, after_s) if isinstance(c, Send) and sent([c], PullRequest)]
    return [(str(command.to), command.envelope.body) for command in commands]


@pytest.mark.parametrize(("quality_weight", "to", "kind"), [(1.0, "agent:1", A), (10.0, "agent:2", B)])
def test_an_idle_agent_asks_for_the_task_that_would_gain_most(
    quality_weight: float, to: str, kind: TaskType
) -> None:
    """Neighbour 1 drains in 5 and neighbour 2 in 3 steps; but of type b the own estimate is better by 0.4."""
    one = one_agent(pull=True, policy="drain_time")
    one.feed(one.message(SetPhase(phase="test", quality_weight=quality_weight, frozen=False)))
    for number in range(8):
        one.feed(one.message(Credit(task_id=TaskId(f"c{number}"), task_type=B, success=True)))
    one.feed(one.says(1, Gossip(view=make_view(1, waiting=(4, 0, 0), in_service=1, slots=1))))  # asks 1
    one.feed(one.says(2, Gossip(view=make_view(2, waiting=(0, 2, 0), in_service=1, slots=1))))
    news = Gossip(view=make_view(1, version=2, waiting=(4, 0, 0), in_service=1, slots=1))
    assert asks(one, one.says(1, news), after_s=2.0) == [(to, PullRequest(task_type=kind))]


def test_one_request_at_a_time_and_none_to_who_has_refused_and_said_nothing_new() -> None:
    one = one_agent(pull=True)

    def waits(version: int) -> Received:
        return one.says(1, Gossip(view=make_view(1, version=version, waiting=(3, 0, 0), in_service=9)))

    def refused() -> Received:
        return one.says(1, PullRefused())

    request = [("agent:1", PullRequest(task_type=A))]
    assert asks(one, waits(1)) == request
    assert asks(one, waits(2)) == [], "the answer is out"
    assert asks(one, waits(3), after_s=2.0) == request, "the answer seems lost"
    assert asks(one, refused()) == []
    assert asks(one, waits(3)) == [], "nothing new"
    assert asks(one, waits(4)) == request


def test_the_asked_agent_gives_its_oldest_task_that_may_go() -> None:
    one = one_agent(pull=True, policy="drain_time", margin=0.0)
    for number in (1, 2):  # busy neighbours: what comes is kept
        hears(one, number, waiting=(99, 0, 0), in_service=1, slots=1)
    for task in (
        make_task("first"),
        make_task("from the asker", previous=AgentId(1), hops=1),
        make_task("far travelled", hops=3),
        make_task("fourth"),
        make_task("fifth"),
    ):
        one.feed(one.message(Submit(task=task)))
    asked = one.says(1, PullRequest(task_type=A))
    asked = replace(asked, envelope=replace(asked.envelope, view=make_view(1, version=9, slots=1)))
    (forward,) = sent(one.feed(asked), Forward)
    assert forward.body.task.task_id == "fourth"
    assert one.state.view().waiting_T == (3, 0, 0)


def test_nothing_to_give_is_answered() -> None:
    one = one_agent(pull=True)
    assert len(sent(one.feed(one.says(1, PullRequest(task_type=B))), PullRefused)) == 1


def pool(quality: tuple[float, ...], seed: int = 1, **mechanism: object) -> Network:
    """A complete graph with one slot an agent, in order, a step takes a second."""
    count = len(quality)
    network = Network(
        out_N=[[j for j in range(count) if j != i] for i in range(count)],
        types=(A, B, C), settings=settings_of(**mechanism), slots=1, seed=seed, disorder=False,
    )  # fmt: skip
    for number, p in enumerate(quality):
        counts = Counts(successes_T=(round(98 * p),) * 3, failures_T=(98 - round(98 * p),) * 3)
        network.states[number].handle(Restore(counts=counts, credited=()), 0.0, np.random.default_rng(1))
    network.broadcast(
        SetPhase(phase="test", quality_weight=mechanism.get("quality_weight", 0.0), frozen=True)
    )  # type: ignore[arg-type]
    return network


def test_with_pull_nobody_idles_while_work_waits() -> None:
    """Twelve tasks enter at one of four agents, which alone routes by pull: three rounds of a second are the
    least there can be. Margin backpressure without pull takes longer."""
    took_s = {}
    for pull in (True, False):
        network = pool(
            (0.5,) * 4,
            policy="drain_time",
            pull=pull,
            margin=1.0,
            forwards_hold_slots=False,
            count_in_flight=True,
        )
        for number in range(12):
            network.submit(0, make_task(f"t{number}"), after_s=0.1)
        assert network.run()
        took_s[pull] = network.now_s - 0.1
    assert took_s[True] == pytest.approx(3.0, abs=0.1)
    assert took_s[False] > took_s[True] + 0.5


# Chance and uncertainty


@pytest.mark.parametrize(
    ("exploration", "frozen", "to"),
    [("upper_bound", False, "agent:2"), ("upper_bound", True, "agent:1"), ("none", False, "agent:1")],
)
def test_uncertain_agents_are_tried_while_verdicts_count(exploration: str, frozen: bool, to: str) -> None:
    """Neighbour 1 won 60 of 100, neighbour 2 has never been tried, the own agent lost 40 of 40."""
    one = one_agent(policy="best_quality", exploration=exploration, exploration_weight=2.0)
    for number in range(40):
        one.feed(one.message(Credit(task_id=TaskId(f"c{number}"), task_type=A, success=False)))
    one.feed(one.message(SetPhase(phase="x", quality_weight=1.0, frozen=frozen)))
    known = replace(make_view(1, quality=(0.6, 0.5, 0.5)), tries_T=(100, 0, 0))
    one.feed(one.says(1, Gossip(view=known)))
    one.feed(one.says(2, Gossip(view=replace(make_view(2), tries_T=(0, 0, 0)))))
    (command,) = [c for c in one.feed(one.message(submit("t"))) if sent([c], Forward)]
    assert isinstance(command, Send)
    assert command.to == to


def test_the_spread_is_that_of_a_beta_posterior() -> None:
    for wins, losses in ((0, 0), (3, 1), (40, 60)):
        mean = (wins + 1) / (wins + losses + 2)
        assert posterior_spread(mean, wins + losses) == pytest.approx(beta(wins + 1, losses + 1).std())


def forwarded_to(one: OneAgent, names: list[str]) -> Counter[str]:
    """Where tasks of type a go that are submitted one after the other."""
    seen: Counter[str] = Counter()
    for name in names:
        forwards = [c for c in one.feed(one.message(submit(name))) if sent([c], Forward)]
        seen[str(forwards[0].to) if forwards and isinstance(forwards[0], Send) else "kept"] += 1
    return seen


def test_thompson_tries_in_proportion_to_what_may_be_best() -> None:
    """Two untried agents and the own one, all alike: each is chosen in a third of the cases."""
    one = OneAgent(settings=settings_of(policy="best_quality", exploration="thompson"), slots=10_000, into=())
    one.feed(one.message(SetPhase(phase="x", quality_weight=1.0, frozen=False)))
    seen = forwarded_to(one, [f"t{number}" for number in range(1500)])
    assert len(seen) == 3
    assert all(count == pytest.approx(500, abs=75) for count in seen.values()), seen


def test_only_sampled_neighbours_are_looked_at() -> None:
    """One of 20 neighbours is better than oneself: it is found in as many cases as it is drawn, 2 of 20."""
    others = tuple(range(1, 21))
    for sampled, expected, tolerance in ((0, 500, 0), (2, 50, 25)):
        settings = settings_of(policy="best_quality", sampled_neighbours=sampled)
        one = OneAgent(settings=settings, out=others, into=(), slots=1000)
        hears(one, 7, quality=(0.9, 0.5, 0.5))
        seen = forwarded_to(one, [f"t{number}" for number in range(500)])
        assert seen["agent:7"] == pytest.approx(expected, abs=tolerance)


# In flight, order, weight


@pytest.mark.parametrize(("counted", "spread"), [(True, 2), (False, 1)])
def test_tasks_on_their_way_count_as_the_receivers_backlog(counted: bool, spread: int) -> None:
    """Eleven tasks at once to an agent with two idle neighbours, of which no view comes back."""
    one = one_agent(policy="deals", route_on_arrival=True, count_in_flight=counted, margin=0.0)
    seen = forwarded_to(one, [f"t{number}" for number in range(11)])
    assert len(set(seen) - {"kept"}) == spread


def test_the_oldest_head_goes_first_where_it_is_asked_for() -> None:
    def filled() -> TypedQueues:
        queues = TypedQueues((A, B, C))
        for at_s, (name, kind) in enumerate(
            (("b1", B), ("a1", A), ("a2", A), ("c1", C), ("c2", C), ("b2", B))
        ):
            queues.push(make_task(name, kind), float(at_s))
        return queues

    assert filled().pop_next("longest", 9.0).task_id == "a1", "all are equally long: the first type"
    assert filled().pop_next("longest_then_oldest", 9.0).task_id == "b1"
    queues = filled()
    queues.push(make_task("c3", C), 7.0)
    assert queues.pop_next("longest_then_oldest", 9.0).task_id == "c1"
    assert [queues.pop_next("oldest", 9.0).task_id for _ in range(6)] == ["b1", "a1", "a2", "c2", "b2", "c3"]


def test_the_weight_follows_its_latency_target() -> None:
    weight = QualityWeight(target_s=2.0)
    assert weight.of(80.0) == 80.0
    for _ in range(100):
        weight.ended(5.0, 80.0)
    low = weight.of(80.0)
    assert 0 < low < 8.0
    for _ in range(200):
        weight.ended(1.0, 80.0)
    assert weight.of(80.0) == 80.0, "and comes back, but never above the phase's"
    without = QualityWeight(target_s=None)
    without.ended(1e9, 80.0)
    assert without.of(80.0) == 80.0
