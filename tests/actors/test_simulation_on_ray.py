"""Virtual time against Ray: the same plan and stream, within stated bounds."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from actors.agent.learning import Learned
from actors.cluster.api import Finished
from actors.cluster.plan import Plan
from actors.cluster.ray_runtime import RayCluster
from actors.cluster.ray_settings import RaySettings
from actors.cluster.simulation import START_WALL_S, Simulation
from actors.config import BackpressureSettings
from actors.messages import SetPhase
from actors.routing.quality import Counts
from actors.task import AgentId
from tests.actors.plans import KINDS, make_tasks
from tests.actors.test_simulation import virtual_plan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("local_ray"),
]

TASKS, RATE_PER_S = 150, 12.0
PHASE = SetPhase(phase="test", quality_weight=20.0, frozen=True)


def plan_of(mechanism: BackpressureSettings) -> Plan:
    """Agents of three slots, each good at one type and sure of it; steps of 0.6 s that slow each other down."""
    options = {"service_s": 0.6, "distribution": "lognormal", "slowdown_exponent": 0.2}
    plan = virtual_plan(mechanism=mechanism, options=options)
    learned = {
        AgentId(i): Learned(
            counts=Counts(
                successes_T=tuple(90 if c == i else 30 for c in range(len(KINDS))),
                failures_T=tuple(10 if c == i else 70 for c in range(len(KINDS))),
            )
        )
        for i in range(3)
    }
    return replace(plan, learned=learned)


def figures(finished: Sequence[Finished], began_wall_s: float) -> tuple[list[float], float, float]:
    """Shares by agent, seconds from begin to the last end, median latency."""
    finishers = Counter(one.outcome.finisher for one in finished)
    return (
        [finishers[AgentId(agent)] / len(finished) for agent in range(3)],
        max(one.finished_wall_s for one in finished) - began_wall_s,
        float(np.median([one.latency_s for one in finished])),
    )


def arrivals_s() -> list[float]:
    return np.random.default_rng(1).exponential(1 / RATE_PER_S, TASKS).cumsum().tolist()  # type: ignore[no-any-return]


def virtually(plan: Plan) -> tuple[list[float], float, float]:
    simulation = Simulation(plan)
    simulation.broadcast(PHASE)
    tasks = make_tasks(TASKS, plan)
    simulation.submit([(at_s, agent, task) for at_s, (agent, task) in zip(arrivals_s(), tasks, strict=True)])
    return figures(list(simulation.run()), START_WALL_S)


async def really(plan: Plan) -> tuple[list[float], float, float]:
    cluster = RayCluster(plan, RaySettings())
    await cluster.start()
    try:
        await cluster.broadcast(PHASE)
        began_s, began_wall_s = time.monotonic(), time.time()

        async def feed() -> None:
            for at_s, task in zip(arrivals_s(), make_tasks(TASKS, plan), strict=True):
                await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
                await cluster.intake.submit([task])

        feeding = asyncio.create_task(feed())
        finished: list[Finished] = []
        while len(finished) < TASKS:
            finished += await cluster.intake.collect(5.0)
        await feeding
        return figures(finished, began_wall_s)
    finally:
        await cluster.close()


@pytest.mark.parametrize(
    "mechanism",
    [
        BackpressureSettings(quality_weight=20.0),
        BackpressureSettings(
            policy="drain_time", margin=0.0, route_on_arrival=True, pull=True, forwards_hold_slots=False
        ),
    ],
    ids=["the paper's rule", "our router"],
)
def test_a_simulated_plan_does_on_ray_what_it_does_in_virtual_time(mechanism: BackpressureSettings) -> None:
    """Shares within 6 points, the whole stream within 10 %, the median latency within 20 % (on a machine that does
    nothing else; messages on Ray take a few milliseconds)."""
    plan = plan_of(mechanism)
    shares, took_s, latency_s = virtually(plan)
    real_shares, real_took_s, real_latency_s = asyncio.run(really(plan))
    assert real_shares == pytest.approx(shares, abs=0.06)
    assert real_took_s == pytest.approx(took_s, rel=0.1)
    assert real_latency_s == pytest.approx(latency_s, rel=0.2)
