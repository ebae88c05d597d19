"""Calls that share an engine: what virtual time makes of them, against a queue whose calls really share."""

import heapq
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from actors.cluster.api import Finished
from actors.cluster.simulation import START_WALL_S, Simulation
from actors.cluster.simulation_settings import SimulationSettings
from actors.task import TaskId
from tests.actors.plans import make_tasks
from tests.actors.test_simulation import virtual_plan

SLOTS = 9


def sharing(arrivals_s: list[float], service_s: list[float], exponent: float) -> tuple[float, float]:
    """(mean latency, last end) where each of n calls under way progresses at n ** -exponent, at every moment; one
    FIFO queue, SLOTS places. Exact: the clock `work` runs at that pace, and ends are in its order."""
    waiting: deque[int] = deque()
    under_way: list[tuple[float, int]] = []
    latencies_s, now_s, work, coming = [], 0.0, 0.0, 0
    while coming < len(arrivals_s) or under_way:
        pace = max(1, len(under_way)) ** -exponent
        end_s = now_s + (under_way[0][0] - work) / pace if under_way else np.inf
        if coming < len(arrivals_s) and arrivals_s[coming] <= end_s:
            work += (arrivals_s[coming] - now_s) * pace
            now_s = arrivals_s[coming]
            waiting.append(coming)
            coming += 1
        else:
            now_s = end_s
            work, ended = heapq.heappop(under_way)
            latencies_s.append(now_s - arrivals_s[ended])
        while waiting and len(under_way) < SLOTS:
            begun = waiting.popleft()
            heapq.heappush(under_way, (work + service_s[begun], begun))
    return float(np.mean(latencies_s)), now_s


def run(arrivals_s: list[float], *, slots: int, exponent: float = 0.0) -> list[Finished]:
    """One agent, one task type, one call a task."""
    options = {"service_s": 1.0, "distribution": "lognormal", "slowdown_exponent": exponent}
    plan = virtual_plan(agents=1, slots=slots, options=options)
    simulation = Simulation(plan, SimulationSettings(delay_s=0.0))
    simulation.submit(
        [
            (at_s, agent, replace(task, task_type=plan.types[0]))
            for at_s, (agent, task) in zip(arrivals_s, make_tasks(len(arrivals_s), plan), strict=True)
        ]
    )
    return list(simulation.run())


@pytest.mark.parametrize("exponent", [0.3, 0.5])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.9, None], ids=lambda load: f"load {load}" if load else "batch")
def test_a_slowdown_fixed_at_the_start_comes_close_to_sharing(exponent: float, load: float | None) -> None:
    """Mean latency within 5 %, the whole stream within 2 %, for lognormal calls under Poisson load or all at once."""
    count = 140 if load is None else 3000
    arrivals_s = [0.0] * count
    if load is not None:
        rate_per_s = load * SLOTS ** (1 - exponent)
        arrivals_s = np.random.default_rng(7).exponential(1 / rate_per_s, count).cumsum().tolist()
    ended = run(arrivals_s, slots=SLOTS, exponent=exponent)
    alone = {
        one.outcome.task.task_id: one.outcome.task.steps[0].duration_s for one in run(arrivals_s, slots=1)
    }
    service_s = [alone[TaskId(f"k{n}")] for n in range(count)]
    shared_latency_s, shared_end_s = sharing(arrivals_s, service_s, exponent)
    assert np.mean([one.latency_s for one in ended]) == pytest.approx(shared_latency_s, rel=0.05)
    assert ended[-1].finished_wall_s - START_WALL_S == pytest.approx(shared_end_s, rel=0.02)
