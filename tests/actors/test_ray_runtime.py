"""A plan on Ray behaves as in this process, and survives the deaths it should survive."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import ray
from ray.util.placement_group import placement_group_table

from actors.agent.replay import replay
from actors.cluster.api import Cluster
from actors.cluster.local import LocalCluster
from actors.cluster.ray_connection import RaySettings
from actors.cluster.ray_runtime import RayCluster
from actors.config import ExecutorSettings
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
    run_all,
    run_one_by_one,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("local_ray")]

TASKS = 200
SLOW_CALL = {"service_s_by_purpose": {"direct": 0.4}}


def on_ray(
    plan: Any, use: Callable[[RayCluster], Awaitable[Any]], settings: RaySettings | None = None
) -> Any:
    """Starts a plan, uses it, and closes it whatever happens."""

    async def whole() -> Any:
        cluster = RayCluster(plan, settings or RaySettings(control_timeout_s=20.0))
        try:
            await cluster.start()
            return await use(cluster)
        finally:
            await cluster.close()

    return asyncio.run(whole())


async def in_process(plan: Any, use: Callable[[LocalCluster], Awaitable[Any]]) -> Any:
    cluster = LocalCluster(plan)
    try:
        await cluster.start()
        return await use(cluster)
    finally:
        await cluster.close()


def left_of(namespace: str) -> list[str]:
    """Actors and placement groups of a run that are still there."""
    actors = [
        a["name"] for a in ray.util.list_named_actors(all_namespaces=True) if a["namespace"] == namespace
    ]
    groups = [
        group["name"]
        for group in placement_group_table().values()
        if group["name"].startswith(namespace) and group["state"] != "REMOVED"
    ]
    return actors + groups


def direct(**changes: Any) -> Any:
    return make_agent_settings(
        executor=ExecutorSettings(kind="direct", call_patience_s=PATIENCE_S), **changes
    )


# One run that shows everything a healthy run shows

HEALTHY = make_plan(
    options={"split_rate": 0.3, "complete_rate": 0.6, "failure_rate": 0.02, "service_s": 0.005},
    record_logs=True,
)


@pytest.fixture(scope="module")
def healthy(local_ray: None) -> Iterator[Ran]:
    return on_ray(HEALTHY, lambda cluster: run_all(cluster, HEALTHY, TASKS))  # type: ignore[no-any-return]


def test_every_task_ends_exactly_once_and_nothing_is_held(healthy: Ran) -> None:
    ended = Counter(finished.outcome.task.task_id for finished in healthy.finished)
    assert ended == Counter(task.task_id for _, task in make_tasks(TASKS, HEALTHY))
    assert all(finished.outcome.error is None for finished in healthy.finished)
    assert [snapshot.holding for snapshot in healthy.snapshots] == [()] * 3


def test_the_records_account_for_every_task(healthy: Ran) -> None:
    arrivals = Counter(record.how for record in healthy.of(ArrivalRecord))
    decisions = healthy.of(DecisionRecord)
    steps = Counter(record.kind for record in healthy.of(ExecutionRecord))
    forwarded = sum(decision.chosen is not None for decision in decisions)
    assert arrivals["submitted"] == steps["executed"] == TASKS
    assert arrivals["forwarded"] == forwarded > 0
    assert arrivals["split"] == steps["split"] > 0
    assert len(decisions) == arrivals.total()


def test_agents_learn_from_verdicts_in_their_own_process(healthy: Ran) -> None:
    credited = sum(sum(s.counts.successes_T) + sum(s.counts.failures_T) for s in healthy.snapshots)
    assert credited == sum(len({step.agent for step in f.outcome.task.steps}) for f in healthy.finished)
    assert all(snapshot.trajectories for snapshot in healthy.snapshots)


def test_a_recorded_log_replays_to_the_same_commands(healthy: Ran) -> None:
    for snapshot in healthy.snapshots:
        epoch = next(
            command.envelope.epoch
            for entry in snapshot.log
            for command in entry.commands
            if hasattr(command, "envelope")
        )
        identity = HEALTHY.identity(snapshot.agent, epoch)
        again = replay(snapshot.log, identity, HEALTHY.settings)
        assert again == [list(entry.commands) for entry in snapshot.log]
        assert len(again) > TASKS // 3


# The same decisions as in this process

ALONE = make_plan(
    options={"split_rate": 0.3, "complete_rate": 0.6}, settings=make_agent_settings(gossip_interval_s=0.0)
)


def test_one_task_at_a_time_is_decided_as_in_this_process() -> None:
    def decisions(ran: Ran) -> list[DecisionRecord]:
        ordered = sorted(ran.records, key=lambda stamped: stamped.wall_s)
        return [
            replace(
                record,
                task_age_s=0.0,
                candidates=tuple(replace(candidate, age_s=0.0) for candidate in record.candidates),
            )
            for record in (stamped.record for stamped in ordered)
            if isinstance(record, DecisionRecord)
        ]

    here = asyncio.run(in_process(ALONE, lambda cluster: run_one_by_one(cluster, ALONE, 30, 0.01)))
    there = on_ray(ALONE, lambda cluster: run_one_by_one(cluster, ALONE, 30, 0.15))
    assert decisions(there) == decisions(here)
    assert len({decision.chosen for decision in decisions(here)}) > 1
    assert [f.outcome.answer for f in there.finished] == [f.outcome.answer for f in here.finished]


# Deaths


@pytest.mark.parametrize("how", ["killed by Ray", "process killed"])
def test_a_replica_that_dies_in_a_step_comes_back_and_no_task_is_lost(how: str) -> None:
    plan = make_plan(2, options=SLOW_CALL, settings=direct())

    async def use(cluster: RayCluster) -> Ran:
        await begin(cluster)
        await cluster.intake.submit(make_tasks(24, plan))
        await asyncio.sleep(0.6)
        replica = ray.get_actor("a1-replica", namespace=cluster.namespace)
        if how == "killed by Ray":
            ray.kill(replica, no_restart=False)
        else:
            os.kill(await replica.__ray_call__.remote(process_id), signal.SIGKILL)
        finished = await finish(cluster, 24)
        status = await replica.status.remote()
        assert status.healthy
        assert 0 < status.served < 24, "counts from its restart on"
        return Ran(plan=plan, finished=finished, records=await cluster.drain(), snapshots=[])

    ran = on_ray(plan, use)
    assert sorted(f.outcome.task.task_id for f in ran.finished) == sorted(f"k{i}" for i in range(24))
    assert all(f.outcome.error is None for f in ran.finished)
    assert Counter(record.what for record in ran.of(CountRecord))["model call retried"] > 0


def process_id(_: object) -> int:
    return os.getpid()


def test_a_replica_whose_restarts_are_used_up_ends_the_run_by_name() -> None:
    plan = make_plan(2, options=SLOW_CALL, settings=direct())

    async def use(cluster: RayCluster) -> None:
        await begin(cluster)
        ray.kill(ray.get_actor("a2-replica", namespace=cluster.namespace), no_restart=True)
        with pytest.raises(ClusterError, match=r"a2-replica is gone for good.*--resume"):
            for _ in range(50):
                await cluster.drain()
                await asyncio.sleep(0.1)

    on_ray(plan, use)


def test_a_dead_agent_ends_the_run_by_name_and_does_not_hang() -> None:
    plan = make_plan(2, options=SLOW_CALL, settings=direct())

    async def use(cluster: RayCluster) -> None:
        await begin(cluster)
        await cluster.intake.submit(make_tasks(12, plan))
        ray.kill(ray.get_actor("a2", namespace=cluster.namespace))
        async with asyncio.timeout(60):
            with pytest.raises(ClusterError, match=r"a2 is gone.*--resume"):
                while True:
                    await cluster.intake.collect(1.0)
            with pytest.raises(ClusterError, match="a2 is gone"):
                await cluster.drain()
            with pytest.raises(ClusterError, match="a2 is gone"):  # would wait for a2 for ever
                await begin(cluster)

    on_ray(plan, use)


def test_a_replica_that_cannot_start_is_named_and_nothing_stays() -> None:
    plan = make_plan(3, options_by_agent={1: {"serivce_s": 1.0}})

    async def start() -> str:
        cluster = RayCluster(plan)
        with pytest.raises(ClusterError, match=r"agent a2: model model-1: .*serivce_s"):
            await cluster.start()
        assert await eventually(lambda: not left_of(cluster.namespace)), left_of(cluster.namespace)
        await cluster.close()
        return cluster.namespace

    asyncio.run(start())


def test_without_its_encoder_a_run_goes_on_and_counts_skipped_recalls() -> None:
    plan = make_plan(2, settings=direct())

    async def use(cluster: RayCluster) -> tuple[int, int]:
        await begin(cluster)
        tasks = make_tasks(60, plan)
        await cluster.intake.submit(tasks[:30])
        before = await finish(cluster, 30)
        assert all(step.recall_skipped == 0 for f in before for step in f.outcome.task.steps)
        ray.kill(ray.get_actor("encoder", namespace=cluster.namespace))
        await cluster.intake.submit(tasks[30:])
        after = await finish(cluster, 30)
        assert all(f.outcome.error is None for f in after)
        skipped = sum(step.recall_skipped for f in after for step in f.outcome.task.steps)
        noted = [s.record for s in await cluster.drain() if isinstance(s.record, ExecutionRecord)]
        return skipped, sum(record.recall_skipped for record in noted)

    skipped, noted = on_ray(plan, use)
    assert skipped == noted > 0


# The rest of the contract


def test_several_agents_share_a_host_and_runs_do_not_collide() -> None:
    plan = make_plan(5, agents_per_actor=3)

    async def both() -> tuple[Ran, Ran]:
        clusters = RayCluster(plan), RayCluster(plan)
        try:
            for cluster in clusters:
                await cluster.start()
            names = {a["name"] for a in ray.util.list_named_actors(all_namespaces=True)}
            assert names >= {"a1..a3", "a4..a5", "a1-replica", "a5-replica", "encoder", "intake"}
            one, two = await asyncio.gather(*(run_all(cluster, plan, 40) for cluster in clusters))
        finally:
            began_s = time.monotonic()
            for cluster in clusters:
                await cluster.close()
                await cluster.close()  # may be called twice
            assert time.monotonic() - began_s < 10
        assert await eventually(lambda: not any(left_of(cluster.namespace) for cluster in clusters))
        return one, two

    for ran in asyncio.run(both()):
        assert sorted(f.outcome.task.task_id for f in ran.finished) == sorted(f"k{i}" for i in range(40))
        assert [snapshot.agent for snapshot in ran.snapshots] == [0, 1, 2, 3, 4]


def test_a_cancelled_task_stops_its_call_in_the_replica() -> None:
    plan = make_plan(1, options={"service_s": 60.0}, settings=direct())

    async def use(cluster: RayCluster) -> None:
        await begin(cluster)
        await cluster.intake.submit(make_tasks(1, plan))
        replica = ray.get_actor("a1-replica", namespace=cluster.namespace)
        async with asyncio.timeout(20):
            while not (await replica.status.remote()).in_flight:
                await asyncio.sleep(0.1)
        await cluster.broadcast(Cancel(task_id=TaskId("k0")))
        (finished,) = await finish(cluster, 1)
        assert finished.outcome.error == "cancelled"
        status = await replica.status.remote()
        assert (status.in_flight, status.cancelled) == (0, 1)

    on_ray(plan, use)


def test_the_intake_answers_as_in_this_process() -> None:
    plan = make_plan(1, options={"service_s": 0.5}, settings=direct())

    async def use(cluster: Cluster) -> None:
        await begin(cluster)
        assert await cluster.intake.collect(0.1) == []
        (task,) = make_tasks(1, plan)
        await cluster.intake.submit([task])
        with pytest.raises(Final, match="'k0' is already under way"):
            await cluster.intake.submit([task])
        given_up = asyncio.ensure_future(cluster.intake.collect(10.0))
        await asyncio.sleep(0.2)
        given_up.cancel()
        (finished,) = await finish(cluster, 1)  # a collect that was given up has taken nothing along
        assert finished.outcome.finisher == AgentId(0)

    asyncio.run(in_process(plan, use))
    on_ray(plan, use)
