"""A plan in this process, with simulated models."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest

from actors.agent.learning import Learned
from actors.cluster.api import Finished, Verdict
from actors.cluster.graphs import build_topology
from actors.cluster.local import LocalCluster
from actors.cluster.plan import AgentPlan, Plan
from actors.cluster.topology import TopologySettings
from actors.config import AgentSettings, ExecutorSettings, MemorySettings
from actors.errors import ClusterError
from actors.messages import Cancel, SetPhase
from actors.metrics import CountRecord, ExecutionRecord
from actors.routing.quality import Counts
from actors.task import AgentId, Task, TaskId
from serving.api import BackendSpec, EncoderSpec
from tests.actors.samples import A, B, agent, make_task


def make_plan(
    agents: int = 3,
    *,
    slots: int = 3,
    executor: ExecutorSettings | None = None,
    kind: str = "complete",
    agents_per_actor: int = 1,
    encoder: EncoderSpec | None = None,
    learned: dict[AgentId, Learned] | None = None,
    **options: object,
) -> Plan:
    """A pool of equal simulated models."""
    return Plan(
        name="test",
        types=(A, B),
        agents=tuple(
            AgentPlan(
                agent=agent(n), name=f"a{n}", slots=slots,
                backend=BackendSpec(kind="simulated", model=f"m{n}", options=options),
            )
            for n in range(agents)
        ),
        topology=build_topology(agents, TopologySettings(kind=kind)),  # type: ignore[arg-type]
        settings=AgentSettings(
            executor=executor if executor is not None else ExecutorSettings(kind="direct"),
            memory=MemorySettings(kind="exact", minimum_score=0.0),
        ),
        encoder=encoder,
        agents_per_actor=agents_per_actor,
        learned=learned if learned is not None else {},
    )  # fmt: skip


def running(plan: Plan, use: Callable[[LocalCluster], Awaitable[None]]) -> None:
    async def body() -> None:
        cluster = LocalCluster(plan)
        await cluster.start()
        try:
            await use(cluster)
        finally:
            await cluster.close()
        assert len(asyncio.all_tasks()) == 1, "something runs on after close"

    asyncio.run(body())


async def phase(cluster: LocalCluster, quality_weight: float = 0.0, *, frozen: bool = False) -> None:
    await cluster.broadcast(SetPhase(phase="test", quality_weight=quality_weight, frozen=frozen))


async def collect(cluster: LocalCluster, count: int) -> list[Finished]:
    finished: list[Finished] = []
    async with asyncio.timeout(30):
        while len(finished) < count:
            finished += await cluster.intake.collect(1.0)
    return finished


def some_tasks(count: int, seed: int = 1, agents: int = 3) -> list[tuple[AgentId, Task]]:
    chance = np.random.default_rng(seed)
    return [
        (agent(int(chance.integers(agents))), make_task(f"t{n}", (A, B)[int(chance.integers(2))]))
        for n in range(count)
    ]


def names(finished: Sequence[Finished]) -> Counter[str]:
    return Counter(f.outcome.task.task_id for f in finished)


@pytest.mark.parametrize("agents_per_actor", [1, 2])
@pytest.mark.parametrize("kind", ["complete", "ring", "chain"])
def test_each_task_ends_once_with_splits_and_failing_models(kind: str, agents_per_actor: int) -> None:
    async def use(cluster: LocalCluster) -> None:
        await phase(cluster)
        await cluster.intake.submit(some_tasks(60, agents=4))
        finished = await collect(cluster, 60)
        assert names(finished) == Counter(f"t{n}" for n in range(60))
        assert all(f.outcome.answer is not None for f in finished), "failures are tried again"
        assert any(f.outcome.task.splits for f in finished)
        assert [s.holding for s in await cluster.snapshots()] == [()] * 4
        counts = [s.record.what for s in await cluster.drain() if isinstance(s.record, CountRecord)]
        assert "model call retried" in counts

    plan = make_plan(
        4, kind=kind, agents_per_actor=agents_per_actor, executor=ExecutorSettings(), failure_rate=0.2,
        split_rate=0.4, complete_rate=0.3,
    )  # fmt: skip
    running(plan, use)


def test_a_model_that_never_works_ends_its_tasks_with_an_error() -> None:
    async def use(cluster: LocalCluster) -> None:
        await phase(cluster)
        await cluster.intake.submit(some_tasks(12))
        finished = await collect(cluster, 12)
        assert all("simulated failure" in (f.outcome.error or "") for f in finished)

    running(make_plan(executor=ExecutorSettings(kind="direct", call_patience_s=0.0), failure_rate=1.0), use)


def test_cancel_ends_hanging_and_waiting_tasks_with_one_report_each() -> None:
    async def use(cluster: LocalCluster) -> None:
        await phase(cluster)
        await cluster.intake.submit(some_tasks(12))
        assert await cluster.intake.collect(0.05) == []
        for number in range(12):
            await cluster.broadcast(Cancel(task_id=TaskId(f"t{number}")))
        finished = await collect(cluster, 12)
        assert names(finished) == Counter(f"t{n}" for n in range(12))
        assert {f.outcome.error for f in finished} == {"cancelled"}
        assert await cluster.intake.collect(0.05) == []
        assert [s.holding for s in await cluster.snapshots()] == [()] * 3

    running(make_plan(slots=2, service_s=3600.0), use)


def test_an_interrupted_driver_leaves_nothing_running() -> None:
    """As by Ctrl-C: the driver's task is cancelled in the middle of a run."""

    async def driver(begun: asyncio.Event) -> None:
        cluster = LocalCluster(make_plan(slots=2, service_s=3600.0))
        await cluster.start()
        try:
            await phase(cluster)
            await cluster.intake.submit(some_tasks(12))
            begun.set()
            await cluster.intake.collect(3600.0)
        finally:
            await cluster.close()
            await cluster.close()

    async def body() -> None:
        begun = asyncio.Event()
        driving = asyncio.create_task(driver(begun))
        await begun.wait()
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(body())


def test_a_symmetric_pool_shares_evenly_without_quality() -> None:
    """All arrivals at agent 0 of three, far more than it has slots for, V = 0: each share is within 0.12 of a
    third. (Backlogs differ by at most the margin; the bound leaves room for the last tasks and for a busy
    machine.)"""

    async def use(cluster: LocalCluster) -> None:
        await phase(cluster)
        await cluster.intake.submit([(agent(0), make_task(f"t{n}")) for n in range(300)])
        finished = await collect(cluster, 300)
        by_agent = Counter(f.outcome.finisher for f in finished)
        assert [by_agent[agent(n)] / 300 for n in range(3)] == pytest.approx([1 / 3] * 3, abs=0.12)

    running(make_plan(service_s=0.01), use)


def test_quality_draws_tasks_to_the_strongest_agent() -> None:
    """The strongest agent's share grows with V. Types are learned: 9 of 10 against 1 of 10."""
    strong, weak = (
        Counts(successes_T=(9, 9), failures_T=(1, 1)),
        Counts(successes_T=(1, 1), failures_T=(9, 9)),
    )
    shares: list[float] = []

    async def use(cluster: LocalCluster) -> None:
        for number, weight in enumerate((0.0, 20.0, 80.0)):
            await phase(cluster, weight, frozen=True)
            tasks = [(agent(n % 3), make_task(f"{number}-{n}")) for n in range(120)]
            await cluster.intake.submit(tasks)
            finished = await collect(cluster, 120)
            shares.append(sum(f.outcome.finisher == agent(1) for f in finished) / 120)

    learned = {agent(n): Learned(counts=strong if n == 1 else weak) for n in range(3)}
    running(make_plan(service_s=0.01, learned=learned), use)
    assert shares[0] < 0.45
    assert shares[0] < shares[1] < shares[2]


def test_verdicts_are_learned_until_the_freeze() -> None:
    async def use(cluster: LocalCluster) -> None:
        await phase(cluster)
        await cluster.intake.submit([(agent(0), make_task("t0")), (agent(1), make_task("t1"))])
        await collect(cluster, 2)
        verdicts = [
            Verdict(task_id=TaskId(f"t{n}"), task_type=A, agents=(agent(n),), success=n == 0)
            for n in range(2)
        ]
        await cluster.intake.credit(verdicts)
        await asyncio.sleep(0.05)
        learned = await cluster.snapshots()
        assert [s.counts.successes_T for s in learned] == [(1, 0), (0, 0), (0, 0)]
        assert [s.counts.failures_T for s in learned] == [(0, 0), (1, 0), (0, 0)]
        assert [len(s.trajectories) for s in learned] == [1, 0, 0]
        await phase(cluster, 20.0, frozen=True)
        await cluster.intake.submit([(agent(2), make_task("u"))])
        await collect(cluster, 1)
        late = Verdict(task_id=TaskId("u"), task_type=A, agents=(agent(2),), success=True)
        await cluster.intake.credit([late])
        await asyncio.sleep(0.05)
        frozen = await cluster.snapshots()
        assert [(s.counts, s.trajectories) for s in frozen] == [(s.counts, s.trajectories) for s in learned]

    running(make_plan(encoder=EncoderSpec(kind="hashing")), use)


def test_a_run_goes_on_with_what_was_learned() -> None:
    learned = Learned(counts=Counts(successes_T=(4, 0), failures_T=(0, 2)), credited=(TaskId("old"),))

    async def use(cluster: LocalCluster) -> None:
        again = Verdict(task_id=TaskId("old"), task_type=A, agents=(agent(1),), success=True)
        await cluster.intake.credit([again])
        assert [s.counts for s in await cluster.snapshots()][1] == learned.counts

    running(make_plan(learned={agent(1): learned}), use)


def test_measurements_are_drained_once() -> None:
    async def use(cluster: LocalCluster) -> None:
        await phase(cluster)
        await cluster.intake.submit(some_tasks(5))
        await collect(cluster, 5)
        records = [s.record for s in await cluster.drain()]
        assert sum(isinstance(record, ExecutionRecord) for record in records) == 5
        assert not any(isinstance(s.record, ExecutionRecord) for s in await cluster.drain())

    running(make_plan(), use)


def test_a_task_for_an_agent_that_is_not_there_is_an_error() -> None:
    async def use(cluster: LocalCluster) -> None:
        with pytest.raises(ClusterError, match="has no agent 7; it has 3"):
            await cluster.intake.submit([(agent(7), make_task("t"))])
        await cluster.intake.submit([(agent(0), make_task("t"))])
        await collect(cluster, 1)

    running(make_plan(), use)


def test_a_model_that_cannot_be_built_is_named() -> None:
    async def body() -> None:
        with pytest.raises(ClusterError, match="plan 'test' could not start: simulated m0: nonsense"):
            await LocalCluster(make_plan(nonsense=1)).start()

    asyncio.run(body())
