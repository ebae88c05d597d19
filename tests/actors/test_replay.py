"""Everything an agent does follows from its log."""

import asyncio
from dataclasses import replace

import pytest

from actors.agent.replay import replay
from actors.cluster.local import LocalCluster
from actors.cluster.plan import Plan
from actors.config import BackpressureSettings
from actors.routing.policies import POLICIES
from tests.actors.plans import Ran, make_agent_settings, make_plan, run_all


def run_here(plan: Plan) -> Ran:
    async def whole() -> Ran:
        cluster = LocalCluster(plan)
        try:
            await cluster.start()
            return await run_all(cluster, plan, 60)
        finally:
            await cluster.close()

    return asyncio.run(whole())


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_log_replays_to_the_same_commands_with_its_chance(policy: str) -> None:
    plan = make_plan(
        options={"split_rate": 0.3, "complete_rate": 0.6, "service_s": 0.001, "distribution": "exponential"},
        settings=make_agent_settings(mechanism=BackpressureSettings(policy=policy)),
        record_logs=True,
    )
    for snapshot in run_here(plan).snapshots:
        log = snapshot.log
        assert replay(log, snapshot.identity, plan.settings) == [list(entry.commands) for entry in log]
        assert len(log) > 60


def test_another_time_or_another_event_is_noticed() -> None:
    plan = make_plan(record_logs=True)
    snapshot = run_here(plan).snapshots[0]
    identity = snapshot.identity
    recorded = [list(entry.commands) for entry in snapshot.log]
    without_first = replay(snapshot.log[1:], identity, plan.settings)
    assert without_first != recorded[1:], "the first event started the phase"
    late = [replace(entry, now_s=entry.now_s + 0.01 * i) for i, entry in enumerate(snapshot.log)]
    assert replay(late, identity, plan.settings) != recorded


def test_logs_are_kept_on_request_only() -> None:
    assert all(snapshot.log == () for snapshot in run_here(make_plan()).snapshots)
