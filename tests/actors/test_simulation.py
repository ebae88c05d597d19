"""A plan under virtual time: the same agents, nothing lost, nothing measured, always the same."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.agent.replay import replay
from actors.cluster.graphs import build_topology
from actors.cluster.plan import Plan
from actors.cluster.simulation import START_WALL_S, Simulation
from actors.cluster.simulation_settings import SimulationSettings
from actors.cluster.topology import Topology
from actors.config import BackpressureSettings, ExecutorSettings, MemorySettings
from actors.errors import ClusterError, Final
from actors.messages import Cancel, SetPhase
from actors.metrics import ArrivalRecord, CountRecord, DecisionRecord
from actors.task import AgentId
from serving.api import BackendSpec
from serving.build import build_virtual_model
from serving.errors import FinalServingError
from tests.actors.plans import KINDS, Ran, make_agent_settings, make_plan, make_tasks, run_one_by_one, verdict
from tests.actors.test_network import graphs, routings


def virtual_plan(
    *, mechanism: BackpressureSettings | None = None, kind: str = "direct", **changes: Any
) -> Plan:
    agent_settings = make_agent_settings(
        mechanism=mechanism or BackpressureSettings(),
        executor=ExecutorSettings(kind=kind, call_patience_s=60.0),
        memory=MemorySettings(kind="none"),
    )
    return replace(make_plan(settings=agent_settings, **changes), encoder=None)


def start(simulation: Simulation, quality_weight: float = 20.0, *, frozen: bool = False) -> None:
    simulation.broadcast(SetPhase(phase="test", quality_weight=quality_weight, frozen=frozen))


@settings(max_examples=40)
@given(
    out_N=graphs(),
    mechanism=routings(),
    seed=st.integers(0, 2**16),
    failure_rate=st.sampled_from((0.0, 0.3)),
    split_rate=st.sampled_from((0.0, 0.5)),
)
def test_each_task_ends_exactly_once_on_any_graph_under_any_policy(
    out_N: list[list[int]],
    mechanism: BackpressureSettings | None,
    seed: int,
    failure_rate: float,
    split_rate: float,
) -> None:
    options = {
        "service_s": 1.0,
        "distribution": "exponential",
        "failure_rate": failure_rate,
        "split_rate": split_rate,
        "complete_rate": 0.5,
        "seed": seed,
    }
    plan = virtual_plan(mechanism=mechanism, kind="deliberate", agents=len(out_N), options=options, slots=2)
    edges = {(i, j) for i, out in enumerate(out_N) for j in out}
    topology = Topology(
        out_N=tuple(tuple(AgentId(j) for j in out) for out in out_N),
        in_N=tuple(
            tuple(AgentId(i) for i in range(len(out_N)) if (i, j) in edges) for j in range(len(out_N))
        ),
    )
    simulation = Simulation(replace(plan, topology=topology, seed=seed), SimulationSettings(record=True))
    start(simulation)
    simulation.submit([(0.3 * n, agent, task) for n, (agent, task) in enumerate(make_tasks(25, plan))])
    finished, before_s = [], 0.0
    for one in simulation.run():
        assert simulation.now_s >= before_s, "virtual time went back"
        before_s = simulation.now_s
        simulation.credit([verdict(one)])
        finished.append(one)
    assert Counter(one.outcome.task.task_id for one in finished) == Counter(f"k{n}" for n in range(25))
    assert all(one.outcome.answer is not None for one in finished)
    assert all(snapshot.holding == () for snapshot in simulation.snapshots())
    came_from: dict[str, AgentId] = {}
    for stamped in simulation.drain():
        record = stamped.record
        if isinstance(record, ArrivalRecord) and record.how in {"split", "submitted"}:
            came_from.pop(record.task_id, None)
        if isinstance(record, DecisionRecord) and record.chosen is not None:
            assert record.hops < 3
            assert came_from.get(record.task_id) != record.chosen, "sent straight back"
            assert (record.agent, record.chosen) in edges
            came_from[record.task_id] = record.agent


def outcome_of(seed: int) -> list[tuple[str, int, float]]:
    plan = replace(
        virtual_plan(options={"service_s": 1.0, "distribution": "lognormal", "slowdown_exponent": 0.3}),
        seed=seed,
    )
    simulation = Simulation(plan)
    start(simulation)
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(60, plan)])
    found = []
    for one in simulation.run():
        simulation.credit([verdict(one)])
        found.append((one.outcome.task.task_id, one.outcome.finisher, one.finished_wall_s))
    return found


def test_the_same_plan_and_stream_give_the_same_run() -> None:
    assert outcome_of(1) == outcome_of(1)


def test_times_are_those_of_the_model() -> None:
    """One agent with two slots, two calls of 4 s a step taken one after the other in `deliberate`'s four: five
    tasks go in three rounds; every message takes a millisecond."""
    plan = virtual_plan(
        agents=1, slots=2, kind="deliberate",
        options={"service_s": 1.0, "service_s_by_purpose": {"execute": 4.0}},
    )  # fmt: skip
    simulation = Simulation(plan)
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(5, plan)])
    latencies_s = [one.latency_s for one in simulation.run()]
    assert latencies_s == pytest.approx([7.002, 7.002, 14.002, 14.002, 21.002])


def test_calls_slow_each_other_down() -> None:
    """The n-th call of a burst takes sqrt(n) as long."""
    plan = virtual_plan(agents=1, slots=3, options={"service_s": 1.0, "slowdown_exponent": 0.5})
    simulation = Simulation(plan, SimulationSettings(delay_s=0.0))
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(3, plan)])
    assert [one.latency_s for one in simulation.run()] == pytest.approx([1.0, 2**0.5, 3**0.5])


def test_a_run_stops_at_a_time_and_goes_on() -> None:
    plan = virtual_plan(agents=1, slots=1, options={"service_s": 1.0})
    simulation = Simulation(plan, SimulationSettings(delay_s=0.0))
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(3, plan)])
    assert len(list(simulation.run(until_s=2.5))) == 2
    assert simulation.now_s == 2.5
    assert [one.finished_wall_s for one in simulation.run()] == [START_WALL_S + 3.0]


def test_a_failing_model_is_asked_again_and_then_given_up() -> None:
    plan = virtual_plan(agents=1, slots=1, options={"failure_rate": 1.0})
    simulation = Simulation(plan, SimulationSettings(record=True))
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(1, plan)])
    (one,) = simulation.run()
    assert one.outcome.error is not None
    assert "simulated failure" in one.outcome.error
    assert 59.0 < one.latency_s < 61.0, "the executor's patience"
    counts = Counter(s.record.what for s in simulation.drain() if isinstance(s.record, CountRecord))
    assert counts["model call retried"] > 1000


def test_a_call_that_takes_too_long_is_given_up() -> None:
    """Tries of 20 s, each after a pause of 1 s: within a patience of 60 s three begin."""
    plan = virtual_plan(agents=1, slots=2, options={"service_s": 25.0})
    executor = ExecutorSettings(kind="direct", call_timeout_s=20.0, call_patience_s=60.0)
    plan = replace(plan, settings=plan.settings.model_copy(update={"executor": executor}))
    simulation = Simulation(plan, SimulationSettings(delay_s=0.0))
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(1, plan)])
    (one,) = simulation.run()
    assert one.outcome.error is not None
    assert "no answer to the direct call within 20 s" in one.outcome.error
    assert one.latency_s == pytest.approx(62.0)


def test_a_cancelled_step_ends_at_once() -> None:
    plan = virtual_plan(agents=1, slots=1, options={"service_s": 100.0})
    simulation = Simulation(plan)
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(2, plan)])
    assert list(simulation.run(until_s=1.0)) == []
    simulation.broadcast(Cancel(task_id=make_tasks(1, plan)[0][1].task_id))
    first, second = simulation.run()
    assert (first.outcome.error, second.outcome.error) == ("cancelled", None)
    assert first.latency_s < 1.1


def test_a_task_id_under_way_is_refused() -> None:
    plan = virtual_plan(agents=1)
    simulation = Simulation(plan)
    (task,) = make_tasks(1, plan)
    simulation.submit([(0.0, *task)])
    with pytest.raises(Final, match="'k0'"):
        simulation.submit([(0.0, *task)])


def test_real_engines_are_refused_by_name() -> None:
    with pytest.raises(FinalServingError, match=r"'vllm_engine'.*real time.*simulated or replay"):
        build_virtual_model(BackendSpec(kind="vllm_engine", model="m"))
    plan = virtual_plan()
    real = replace(plan.agents[0], backend=BackendSpec(kind="vllm_engine", model="m"))
    with pytest.raises(ClusterError, match=r"'tried' could not start.*'vllm_engine'"):
        Simulation(replace(plan, agents=(real, *plan.agents[1:])))


@pytest.mark.parametrize("seed", range(3))
def test_without_quality_a_symmetric_pool_shares_evenly(seed: int) -> None:
    """900 tasks at once, spread by chance over three alike agents, V = 0: shares within 3 points of a third."""
    options = {"service_s": 1.0, "distribution": "lognormal", "success_rate_by_type": {}, "success_rate": 0.5}
    plan = replace(virtual_plan(options=options, slots=9), seed=seed)
    simulation = Simulation(plan)
    start(simulation, 0.0)
    simulation.submit(
        [(0.0, AgentId((n * (seed + 1)) % 2), task) for n, (_, task) in enumerate(make_tasks(900, plan))]
    )
    finishers = Counter(one.outcome.finisher for one in simulation.run())
    assert [finishers[AgentId(agent)] / 900 for agent in range(3)] == pytest.approx([1 / 3] * 3, abs=0.03)


def test_decisions_are_those_of_the_same_agents_in_real_time() -> None:
    """One task at a time: every decision, with its scores, is the one that the in-process runtime makes."""
    import asyncio

    from actors.cluster.local import LocalCluster

    plan = virtual_plan(options={"service_s": 0.01})

    async def really() -> Ran:
        cluster = LocalCluster(plan)
        await cluster.start()
        try:
            return await run_one_by_one(cluster, plan, 12, settle_s=0.12)
        finally:
            await cluster.close()

    def decisions(records: list[Any]) -> list[tuple[Any, ...]]:
        return [
            (
                r.agent,
                r.task_id,
                r.chosen,
                r.waiting,
                r.quality,
                [(c.agent, c.score, c.quality) for c in r.candidates],
            )
            for r in sorted(records, key=lambda r: (len(r.task_id), r.task_id, r.hops))
        ]

    simulation = Simulation(plan, SimulationSettings(record=True))
    start(simulation)
    for agent, task in make_tasks(12, plan, prefix="alone"):
        simulation.submit([(0.2, agent, task)])
        for one in simulation.run():
            simulation.credit([verdict(one)])
    virtual = [s.record for s in simulation.drain() if isinstance(s.record, DecisionRecord)]
    assert decisions(virtual) == decisions(asyncio.run(really()).of(DecisionRecord))


def remembering_plan(agents: int = 3) -> Plan:
    """Like-worded problems, so that most recalls find something."""
    return make_plan(agents, settings=make_agent_settings(), options={"service_s": 0.01, "success_rate": 0.8})


def test_what_is_remembered_and_shown_is_what_the_same_agents_remember_and_show_in_real_time() -> None:
    """One task at a time, all four calls with both retrievals; only the share of the time in the score differs."""
    import asyncio

    from actors.cluster.local import LocalCluster

    plan = remembering_plan()

    async def really() -> Ran:
        cluster = LocalCluster(plan)
        await cluster.start()
        try:
            return await run_one_by_one(cluster, plan, 12, settle_s=0.12)
        finally:
            await cluster.close()

    simulation = Simulation(plan, SimulationSettings(record=True))
    start(simulation)
    finished = []
    for agent, task in make_tasks(12, plan, prefix="alone"):
        simulation.submit([(0.2, agent, task)])
        for one in simulation.run():
            simulation.credit([verdict(one)])
            finished.append(one)
    real = asyncio.run(really())

    def shown(all_finished: list[Any]) -> list[Any]:
        return [
            [(step.agent, sorted(name for name, _ in step.recalled)) for step in one.outcome.task.steps]
            for one in all_finished
        ]

    assert shown(finished) == shown(real.finished)
    assert any(names for steps in shown(finished) for _, names in steps), "nothing was recalled"
    kept = [[t.trajectory_id for t in snapshot.trajectories] for snapshot in simulation.snapshots()]
    assert kept == [[t.trajectory_id for t in snapshot.trajectories] for snapshot in real.snapshots]


def test_memory_and_records_change_nothing_of_what_happens() -> None:
    plan = remembering_plan()

    def ends(*, record: bool) -> list[tuple[str, int, float]]:
        simulation = Simulation(plan, SimulationSettings(record=record))
        start(simulation)
        simulation.submit([(0.0, agent, task) for agent, task in make_tasks(60, plan)])
        found = []
        for one in simulation.run():
            simulation.credit([verdict(one)])
            found.append((one.outcome.task.task_id, one.outcome.finisher, one.latency_s))
        return found

    assert ends(record=True) == ends(record=False)


def test_logs_of_virtual_time_are_lived_again() -> None:
    plan = virtual_plan(
        options={"service_s": 1.0, "distribution": "exponential"},
        mechanism=BackpressureSettings(policy="random"),
        record_logs=True,
    )
    simulation = Simulation(plan)
    start(simulation)
    simulation.submit([(0.0, agent, task) for agent, task in make_tasks(60, plan)])
    for one in simulation.run():
        simulation.credit([verdict(one)])
    for snapshot in simulation.snapshots():
        again = replay(snapshot.log, snapshot.identity, plan.settings)
        assert again == [list(entry.commands) for entry in snapshot.log]
        assert len(snapshot.log) > 60


def test_a_large_sparse_graph_runs() -> None:
    plan = virtual_plan(agents=200, slots=2, options={"service_s": 1.0})
    from actors.cluster.topology import TopologySettings

    plan = replace(plan, topology=build_topology(200, TopologySettings(kind="k_regular", degree=4)))
    simulation = Simulation(plan)
    start(simulation)
    tasks = make_tasks(2000, plan)
    simulation.submit([(0.01 * n, agent, task) for n, (agent, task) in enumerate(tasks)])
    assert len(list(simulation.run())) == 2000
    assert len(KINDS) == 3
