"""A plan on Ray behaves as in this process, and survives the deaths it should survive."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import ray
from ray.util.placement_group import placement_group_table

from actors.agent.replay import replay
from actors.cluster.api import Cluster
from actors.cluster.local import LocalCluster
from actors.cluster.plan import Plan
from actors.cluster.ray_health import Watch
from actors.cluster.ray_runtime import RayCluster
from actors.cluster.ray_settings import RaySettings
from actors.config import AgentSettings, ExecutorSettings
from actors.errors import ClusterError, Final
from actors.messages import Cancel
from actors.metrics import ArrivalRecord, CountRecord, DecisionRecord, ExecutionRecord
from actors.task import AgentId, TaskId
from tests.actors.plans import (
    PATIENCE_S,
    Ran,
    begin,
    eventually,
    finish,
    make_agent_settings,
    make_plan,
    make_tasks,
    ran,
    run_all,
    run_one_by_one,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("local_ray"),
]

SETTINGS = RaySettings(control_timeout_s=30.0)
SLOW_CALLS = {"service_s_by_purpose": {"direct": 0.4}}


@contextmanager
def on_ray(*plans: Plan) -> Iterator[tuple[asyncio.Runner, list[RayCluster]]]:
    """Plans at work side by side, and the loop they are driven from; ended whatever happens."""
    clusters = [RayCluster(plan, SETTINGS) for plan in plans]
    with asyncio.Runner() as runner:
        try:
            for cluster in clusters:
                runner.run(cluster.start())
            yield runner, clusters
        finally:
            for cluster in clusters:
                runner.run(cluster.close())


def in_process(plan: Plan, use: Callable[[Cluster], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        cluster = LocalCluster(plan)
        try:
            await cluster.start()
            return await use(cluster)
        finally:
            await cluster.close()

    return asyncio.run(whole())


def left_of(cluster: RayCluster) -> list[str]:
    """Actors and placement groups of a run that are still there."""
    named = ray.util.list_named_actors(all_namespaces=True)
    actors = [actor["name"] for actor in named if actor["namespace"] == cluster.namespace]
    groups = [
        group["name"]
        for group in placement_group_table().values()
        if group["name"].startswith(cluster.namespace) and group["state"] != "REMOVED"
    ]
    return actors + groups


def actor(cluster: RayCluster, name: str) -> Any:
    return ray.get_actor(name, namespace=cluster.namespace)


def direct() -> AgentSettings:
    return make_agent_settings(executor=ExecutorSettings(kind="direct", call_patience_s=PATIENCE_S))


def ids(count: int) -> list[str]:
    return sorted(f"k{i}" for i in range(count))


# One healthy run: some tasks alone, then many at once

TASKS, ALONE = 200, 24
HEALTHY = make_plan(
    options={"split_rate": 0.3, "complete_rate": 0.6, "failure_rate": 0.02},
    settings=make_agent_settings(gossip_interval_s=0.0),
    record_logs=True,
)


@pytest.fixture(scope="module")
def healthy(local_ray: None) -> tuple[Ran, Ran]:
    async def use(cluster: Cluster) -> tuple[Ran, Ran]:
        return await run_one_by_one(cluster, HEALTHY, ALONE, 0.15), await run_all(cluster, HEALTHY, TASKS)

    with on_ray(HEALTHY) as (runner, (cluster,)):
        return runner.run(use(cluster))


@pytest.fixture(scope="module")
def crowd(healthy: tuple[Ran, Ran]) -> Ran:
    return healthy[1]


def test_every_task_ends_exactly_once_and_nothing_is_held(crowd: Ran) -> None:
    assert sorted(finished.outcome.task.task_id for finished in crowd.finished) == ids(TASKS)
    assert all(finished.outcome.error is None for finished in crowd.finished)
    assert [snapshot.holding for snapshot in crowd.snapshots] == [()] * 3


def test_the_records_account_for_every_task(crowd: Ran) -> None:
    arrivals = Counter(record.how for record in crowd.of(ArrivalRecord))
    decisions = crowd.of(DecisionRecord)
    steps = Counter(record.kind for record in crowd.of(ExecutionRecord))
    forwarded = sum(decision.chosen is not None for decision in decisions)
    assert arrivals["submitted"] == steps["executed"] == TASKS
    assert arrivals["forwarded"] == forwarded > 0
    assert arrivals["split"] == steps["split"] > 0
    assert len(decisions) == arrivals.total()


def test_agents_learn_from_verdicts_in_their_own_process(healthy: tuple[Ran, Ran]) -> None:
    alone, crowd = healthy
    counts = [snapshot.counts for snapshot in crowd.snapshots]
    learned = sum(sum(each.successes_T) + sum(each.failures_T) for each in counts)
    everything = alone.finished + crowd.finished
    assert learned == sum(len({step.agent for step in f.outcome.task.steps}) for f in everything)
    assert all(snapshot.trajectories for snapshot in crowd.snapshots)


def test_one_task_at_a_time_is_decided_as_in_this_process(healthy: tuple[Ran, Ran]) -> None:
    def decisions(ran: Ran) -> list[DecisionRecord]:
        """In order of time, without what a clock says."""
        ordered = sorted(ran.records, key=lambda stamped: stamped.wall_s)
        made = [stamped.record for stamped in ordered if isinstance(stamped.record, DecisionRecord)]
        return [
            replace(each, task_age_s=0.0, candidates=tuple(replace(c, age_s=0.0) for c in each.candidates))
            for each in made
        ]

    there = healthy[0]
    here = in_process(HEALTHY, lambda cluster: run_one_by_one(cluster, HEALTHY, ALONE, 0.01))
    assert decisions(there) == decisions(here)
    assert len({decision.chosen for decision in decisions(here)}) > 1
    assert [f.outcome.answer for f in there.finished] == [f.outcome.answer for f in here.finished]


def test_a_recorded_log_replays_to_the_same_commands(crowd: Ran) -> None:
    for snapshot in crowd.snapshots:
        again = replay(snapshot.log, snapshot.identity, HEALTHY.settings)
        assert again == [list(entry.commands) for entry in snapshot.log]
        assert len(again) > TASKS


# Deaths


def process_id(_: object) -> int:
    return os.getpid()


def test_a_replica_that_dies_in_a_step_comes_back_and_no_task_is_lost() -> None:
    plan = make_plan(2, options=SLOW_CALLS, settings=direct())

    async def use(cluster: RayCluster) -> Ran:
        await begin(cluster)
        replica = actor(cluster, "a1-replica")
        await cluster.intake.submit(make_tasks(24, plan))
        assert await eventually(lambda: ray.get(replica.status.remote()).in_flight > 0)
        os.kill(await replica.__ray_call__.remote(process_id), signal.SIGKILL)
        finished = await finish(cluster, 24)
        status = await replica.status.remote()
        assert status.healthy
        assert status.served < 24, "a new process counts anew"
        return await ran(cluster, plan, finished)

    with on_ray(plan) as (runner, (cluster,)):
        whole = runner.run(use(cluster))
    assert sorted(f.outcome.task.task_id for f in whole.finished) == ids(24)
    assert all(f.outcome.error is None for f in whole.finished)
    assert Counter(record.what for record in whole.of(CountRecord))["model call retried"] > 0


def test_a_replica_whose_restarts_are_used_up_is_an_error_that_names_it() -> None:
    class Process:
        async def nothing(self) -> None: ...

    async def use() -> None:
        replica = ray.remote(num_cpus=0, concurrency_groups={"control": 1})(Process).remote()
        watch = Watch(5.0)
        watch.over({}, {"a2-replica": replica})
        await watch.check()
        ray.kill(replica)
        with pytest.raises(ClusterError, match=r"a2-replica is gone for good.*--resume"):
            await watch.check()

    asyncio.run(use())


def test_a_dead_agent_ends_the_run_by_name_and_does_not_hang() -> None:
    plan = make_plan(2, options=SLOW_CALLS, settings=direct())

    async def collect_for_ever(cluster: RayCluster) -> None:
        while True:
            await cluster.intake.collect(1.0)

    async def use(cluster: RayCluster) -> None:
        await begin(cluster)
        await cluster.intake.submit(make_tasks(12, plan))
        ray.kill(actor(cluster, "a2"))
        async with asyncio.timeout(60):
            for hopeless in (collect_for_ever, RayCluster.drain, RayCluster.snapshots, begin):
                with pytest.raises(ClusterError, match=r"agent a2 is gone.*--resume"):
                    await hopeless(cluster)

    with on_ray(plan) as (runner, (cluster,)):
        runner.run(use(cluster))


def test_a_replica_that_cannot_start_is_named_and_nothing_stays() -> None:
    cluster = RayCluster(make_plan(2, options_by_agent={1: {"serivce_s": 1.0}}))

    async def start() -> None:
        with pytest.raises(ClusterError, match=r"agent a2: model model-1: .*serivce_s"):
            await cluster.start()
        assert await eventually(lambda: not left_of(cluster)), left_of(cluster)

    asyncio.run(start())


def test_without_its_encoder_a_run_goes_on_and_counts_skipped_recalls() -> None:
    plan = make_plan(2, settings=direct())

    async def use(cluster: RayCluster) -> None:
        await begin(cluster)
        tasks = make_tasks(60, plan)
        await cluster.intake.submit(tasks[:30])
        before = await finish(cluster, 30)
        assert all(step.recall_skipped == 0 for f in before for step in f.outcome.task.steps)
        ray.kill(actor(cluster, "encoder"))
        await cluster.intake.submit(tasks[30:])
        after = await finish(cluster, 30)
        assert all(f.outcome.error is None for f in after)
        skipped = sum(step.recall_skipped for f in after for step in f.outcome.task.steps)
        whole = await ran(cluster, plan, after)
        assert skipped == sum(record.recall_skipped for record in whole.of(ExecutionRecord)) > 0

    with on_ray(plan) as (runner, (cluster,)):
        runner.run(use(cluster))


# The rest of the contract


def test_several_agents_share_a_host_and_runs_of_one_name_do_not_collide() -> None:
    shared, small = make_plan(4, agents_per_actor=3), make_plan(1)

    async def both(clusters: list[RayCluster]) -> list[Ran]:
        named = {actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)}
        assert named >= {"a1..a3", "a4", "a1-replica", "a4-replica", "a1", "encoder", "intake"}
        runs = zip(clusters, (shared, small), strict=True)
        return await asyncio.gather(*(run_all(cluster, plan, 40) for cluster, plan in runs))

    async def end(cluster: RayCluster) -> None:
        began_s = time.monotonic()
        await cluster.close()
        await cluster.close()  # may be called twice
        assert time.monotonic() - began_s < 10
        assert await eventually(lambda: not left_of(cluster)), left_of(cluster)

    with on_ray(shared, small) as (runner, clusters):
        runs = runner.run(both(clusters))
        for cluster in clusters:
            runner.run(end(cluster))
    for whole in runs:
        assert sorted(f.outcome.task.task_id for f in whole.finished) == ids(40)
        assert [snapshot.agent for snapshot in whole.snapshots] == list(range(len(whole.plan.agents)))


ONE = make_plan(
    1,
    options={"service_s": 60.0, "service_factor_by_type": {"words": 0.008, "facts": 0.008}},
    settings=direct(),
)


@pytest.fixture(scope="module")
def one(local_ray: None) -> Iterator[tuple[asyncio.Runner, RayCluster]]:
    """One agent: tasks of type sums take a minute, others half a second."""
    with on_ray(ONE) as (runner, (cluster,)):
        runner.run(begin(cluster))
        yield runner, cluster


def test_a_cancelled_task_stops_its_call_in_the_replica(one: tuple[asyncio.Runner, RayCluster]) -> None:
    runner, cluster = one

    async def use() -> None:
        await cluster.intake.submit(make_tasks(1, ONE))
        replica = actor(cluster, "a1-replica")
        assert await eventually(lambda: ray.get(replica.status.remote()).in_flight == 1)
        await cluster.broadcast(Cancel(task_id=TaskId("k0")))
        (finished,) = await finish(cluster, 1)
        assert finished.outcome.error == "cancelled"
        status = await replica.status.remote()
        assert (status.in_flight, status.cancelled) == (0, 1)

    runner.run(use())


async def use_intake(cluster: Cluster) -> None:
    task = make_tasks(2, ONE)[1]
    assert await cluster.intake.collect(0.1) == []
    await cluster.intake.submit([task])
    with pytest.raises(Final, match="'k1' is already under way") as raised:
        await cluster.intake.submit([task])
    assert type(raised.value) is Final
    given_up = asyncio.ensure_future(cluster.intake.collect(10.0))
    await asyncio.sleep(0.2)
    given_up.cancel()
    (finished,) = await finish(cluster, 1)  # a collect that was given up has taken nothing along
    assert finished.outcome.finisher == AgentId(0)


def test_the_intake_answers_as_in_this_process(one: tuple[asyncio.Runner, RayCluster]) -> None:
    runner, cluster = one
    runner.run(use_intake(cluster))
    in_process(ONE, use_intake)
