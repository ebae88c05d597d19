"""Benchmarks of a running plan, in this process and on Ray: `python -m experiments perf runtime`.

Every load is closed: a fixed number of tasks is under way, and each result is followed by a new task. So the
driver's and the intake's work is part of each figure. Results count by the second at which the intake had them;
ramp-up and tail are outside of the window that is counted.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable

from rich.console import Console

from actors.cluster.api import Cluster, StartableCluster
from actors.cluster.graphs import build_topology
from actors.cluster.local import LocalCluster
from actors.cluster.plan import AgentPlan, Plan
from actors.cluster.topology import TopologySettings
from actors.config import AgentSettings, ExecutorSettings, MemorySettings
from actors.messages import SetPhase
from actors.task import AgentId, Task, TaskId, TaskType
from experiments.perf.figures import Figure, figure, show
from serving.api import BackendSpec

MakeCluster = Callable[[Plan], StartableCluster]
AGENTS = 3
SLOTS = 9
SERVICE_S = 0.5
IDEAL_PER_S = AGENTS * SLOTS / SERVICE_S
TYPES = (TaskType("a"), TaskType("b"))


def main(console: Console) -> int:
    figures = asyncio.run(measure("local", LocalCluster, zero_work_target=3000.0, window_s=3.0))
    figures += asyncio.run(measure("Ray", _on_ray, zero_work_target=200.0, window_s=5.0))
    show(figures, "running plans (medians over repeats; closed loads)", console)
    return 0


def _on_ray(plan: Plan) -> StartableCluster:
    from actors.cluster.ray_runtime import RayCluster

    return RayCluster(plan)


async def measure(
    name: str, make_cluster: MakeCluster, *, zero_work_target: float, window_s: float, repeats: int = 3
) -> list[Figure]:
    """All figures of one runtime."""

    async def zero_work(cluster: Cluster) -> list[Figure]:
        rates = [
            await throughput(cluster, under_way=100, ramp_s=1.0, window_s=window_s) for _ in range(repeats)
        ]
        cpu_us = [await driver_cpu_us(cluster) for _ in range(repeats)]
        latencies_ms = [await latency_ms(cluster) for _ in range(repeats)]
        return [
            figure(
                f"{name}: zero-work tasks", rates, "1/s", target=zero_work_target, better="higher",
                method=f"{AGENTS} agents, one call that takes no time, 100 under way, {window_s:g} s after 1 s",
            ),
            figure(
                f"{name}: driver's CPU time of a zero-work task", cpu_us, "us",
                method="process time over 2,000 tasks, 100 under way",
            ),
            figure(
                f"{name}: latency of a zero-work task alone, p50", latencies_ms, "ms",
                method="from submit to collected, one under way, 200 tasks",
            ),
        ]  # fmt: skip

    async def half_a_second(cluster: Cluster) -> list[Figure]:
        # Twice as many as there are slots, so that a slot never waits for the driver.
        under_way = 2 * AGENTS * SLOTS
        shares = [
            await throughput(cluster, under_way=under_way, ramp_s=3.0, window_s=10.0, over_s=2 * SERVICE_S)
            / IDEAL_PER_S
            * 100
            for _ in range(repeats)
        ]
        method = (
            f"{AGENTS} agents x {SLOTS} slots x {SERVICE_S} s, {under_way} begun over 1 s, 10 s after 3 s"
        )
        return [
            figure(
                f"{name}: goodput of {IDEAL_PER_S:g} tasks/s", shares, "%", target=95.0, better="higher", method=method
            )
        ]  # fmt: skip

    return [
        *await with_cluster(make_cluster, 0.0, zero_work),
        *await with_cluster(make_cluster, SERVICE_S, half_a_second),
    ]


async def with_cluster(
    make_cluster: MakeCluster, service_s: float, use: Callable[[Cluster], Awaitable[list[Figure]]]
) -> list[Figure]:
    """What `use` measures on a plan whose models take `service_s` a call."""
    cluster = make_cluster(simulated_plan(service_s))
    await cluster.start()
    try:
        await cluster.broadcast(SetPhase(phase="perf", quality_weight=0.0, frozen=True))
        return await use(cluster)
    finally:
        await cluster.close()


def simulated_plan(service_s: float) -> Plan:
    """Equal agents on a complete graph; one call a task, no memory."""
    agents = tuple(
        AgentPlan(
            agent=AgentId(number),
            name=f"a{number}",
            slots=SLOTS,
            backend=BackendSpec(kind="simulated", model=f"m{number}", options={"service_s": service_s}),
        )
        for number in range(AGENTS)
    )
    return Plan(
        name="perf",
        types=TYPES,
        agents=agents,
        topology=build_topology(AGENTS, TopologySettings()),
        settings=AgentSettings(executor=ExecutorSettings(kind="direct"), memory=MemorySettings(kind="none")),
        encoder=None,
    )


class ClosedLoad:
    """A fixed number of tasks under way; arrivals go round the agents and the types."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.finished_wall_s: list[float] = []
        """When the intake had each result, in seconds since the epoch."""

    async def keep(self, under_way: int, goes_on: Callable[[], bool], *, over_s: float = 0.0) -> None:
        """A new task for each result as long as `goes_on()`; then waits for the rest. The first ones come one
        by one over `over_s`: of equal length, tasks that start together would also all end together, for ever."""
        if over_s:
            for _ in range(under_way):
                await self.submit(1)
                await asyncio.sleep(over_s / under_way)
        else:
            await self.submit(under_way)
        drained_s = time.monotonic()
        while under_way:
            came = await self.collect()
            if goes_on():
                await self.submit(came)
            else:
                under_way -= came
            if time.monotonic() > drained_s + 1.0:  # as a run does; otherwise measurements pile up
                await self._cluster.drain()
                drained_s = time.monotonic()

    async def submit(self, count: int) -> None:
        numbers = [next(_NUMBERS) for _ in range(count)]
        await self._cluster.intake.submit([(AgentId(n % AGENTS), _task(n)) for n in numbers])

    async def collect(self) -> int:
        """How many results came."""
        finished = await self._cluster.intake.collect(1.0)
        failed = [f.outcome.error for f in finished if f.outcome.error is not None]
        assert not failed, f"a task of the benchmark failed: {failed[0]}"
        self.finished_wall_s += [f.finished_wall_s for f in finished]
        return len(finished)


_NUMBERS = itertools.count()


def _task(number: int) -> Task:
    task_type = TYPES[number // AGENTS % len(TYPES)]
    return Task(task_id=TaskId(f"perf-{number}"), task_type=task_type, problem="2 + 2?")


async def throughput(
    cluster: Cluster, *, under_way: int, ramp_s: float, window_s: float, over_s: float = 0.0
) -> float:
    """Results a second in the window that begins `ramp_s` after the first task."""
    load = ClosedLoad(cluster)
    first_s = time.time() + ramp_s
    last_s = first_s + window_s
    await load.keep(under_way, lambda: time.time() < last_s, over_s=over_s)
    return sum(first_s <= at_s < last_s for at_s in load.finished_wall_s) / window_s


async def driver_cpu_us(cluster: Cluster, tasks: int = 2000) -> float:
    """CPU time of this process for each zero-work task, in microseconds: what a busy machine distorts least.
    With everything in one process that is all the work there is; on Ray it is the driver's."""
    load = ClosedLoad(cluster)
    began_s = time.process_time()
    await load.keep(100, lambda: len(load.finished_wall_s) < tasks)
    return (time.process_time() - began_s) / len(load.finished_wall_s) * 1e6


async def latency_ms(cluster: Cluster, tasks: int = 200) -> float:
    """Median time from submit to collected, one task at a time."""
    load = ClosedLoad(cluster)
    samples_ms = []
    for _ in range(tasks):
        began_s = time.perf_counter()
        await load.submit(1)
        while not await load.collect():
            pass
        samples_ms.append((time.perf_counter() - began_s) * 1e3)
    return statistics.median(samples_ms)
