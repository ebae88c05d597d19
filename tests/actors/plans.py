"""Plans and drives that tests run on every runtime."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.agent.shell import AgentSnapshot
from actors.cluster.api import Cluster, Finished, Verdict
from actors.cluster.graphs import build_topology
from actors.cluster.plan import AgentPlan, Plan
from actors.cluster.topology import TopologySettings
from actors.config import AgentSettings, ExecutorSettings, MemorySettings
from actors.messages import SetPhase
from actors.metrics import Stamped
from actors.task import AgentId, Task, TaskId, TaskType
from serving.api import BackendSpec, EncoderSpec

KINDS = tuple(TaskType(name) for name in ("sums", "words", "facts"))
PATIENCE_S = 60.0


def make_plan(
    agents: int = 3,
    *,
    slots: int = 3,
    options: Mapping[str, Any] | None = None,
    options_by_agent: Mapping[int, Mapping[str, Any]] | None = None,
    settings: AgentSettings | None = None,
    tensor_parallel: Sequence[int] | None = None,
    name: str = "tried",
    **changes: Any,
) -> Plan:
    """Simulated models that differ in what they are good at, on a complete graph."""

    def backend(i: int) -> BackendSpec:
        able = {kind: 0.9 if i % len(KINDS) == c else 0.3 for c, kind in enumerate(KINDS)}
        chosen = {"seed": i, "success_rate_by_type": able} | dict(options or {})
        return BackendSpec(
            kind="simulated",
            model=f"model-{i}",
            options=chosen | dict((options_by_agent or {}).get(i, {})),
            tensor_parallel=tensor_parallel[i] if tensor_parallel else 1,
        )

    return Plan(
        name=name,
        types=KINDS,
        agents=tuple(
            AgentPlan(agent=AgentId(i), name=f"a{i + 1}", slots=slots, backend=backend(i))
            for i in range(agents)
        ),
        topology=build_topology(agents, TopologySettings()),
        settings=settings or make_agent_settings(),
        encoder=EncoderSpec(kind="hashing"),
        **changes,
    )


def make_agent_settings(**changes: Any) -> AgentSettings:
    values: dict[str, Any] = {
        "executor": ExecutorSettings(call_patience_s=PATIENCE_S),
        "memory": MemorySettings(kind="exact"),
    }
    return AgentSettings(**(values | changes))


def make_tasks(count: int, plan: Plan, prefix: str = "k") -> list[tuple[AgentId, Task]]:
    """Tasks of all types, each with its arrival agent."""
    return [
        (
            AgentId(i * 7 % len(plan.agents)),
            Task(task_id=TaskId(f"{prefix}{i}"), task_type=KINDS[i % len(KINDS)], problem=f"what is {i}?"),
        )
        for i in range(count)
    ]


def right(finished: Finished) -> bool:
    outcome = finished.outcome
    return outcome.answer == f"answer to {outcome.task.task_id}"


def verdict(finished: Finished) -> Verdict:
    task = finished.outcome.task
    agents = tuple(dict.fromkeys(step.agent for step in task.steps))
    return Verdict(task_id=task.task_id, task_type=task.task_type, agents=agents, success=right(finished))


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Everything that came out of a run."""

    plan: Plan
    finished: list[Finished]
    records: list[Stamped]
    snapshots: list[AgentSnapshot]

    def of(self, kind: type) -> list[Any]:
        return [stamped.record for stamped in self.records if isinstance(stamped.record, kind)]


async def begin(cluster: Cluster) -> None:
    await cluster.broadcast(SetPhase(phase="test", quality_weight=20.0, frozen=False))


async def finish(cluster: Cluster, count: int, *, patience_s: float = PATIENCE_S) -> list[Finished]:
    """Collects and credits until `count` tasks have ended; fails if they do not."""
    done: list[Finished] = []
    async with asyncio.timeout(patience_s):
        while len(done) < count:
            new = await cluster.intake.collect(5.0)
            await cluster.intake.credit([verdict(finished) for finished in new])
            done += new
    return done


async def run_all(cluster: Cluster, plan: Plan, count: int) -> Ran:
    """Everything at once, after a start of the phase."""
    await begin(cluster)
    await cluster.intake.submit(make_tasks(count, plan))
    finished = await finish(cluster, count)
    finished += await cluster.intake.collect(0.3)  # anything that came twice
    return await ran(cluster, plan, finished)


async def run_one_by_one(cluster: Cluster, plan: Plan, count: int, settle_s: float) -> Ran:
    """Each task alone; every view has arrived before the next."""
    await begin(cluster)
    finished: list[Finished] = []
    for task in make_tasks(count, plan, prefix="alone"):
        await cluster.intake.submit([task])
        finished += await finish(cluster, 1)
        await asyncio.sleep(settle_s)
    return await ran(cluster, plan, finished)


async def ran(cluster: Cluster, plan: Plan, finished: list[Finished]) -> Ran:
    records = await cluster.drain()
    return Ran(plan=plan, finished=finished, records=records, snapshots=await cluster.snapshots())


async def eventually(holds: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Whether something comes true in time."""
    for _ in range(int(within_s / 0.1)):
        if holds():
            return True
        await asyncio.sleep(0.1)
    return holds()
