"""The simulated runtime at full size: `python -m experiments perf simulation`.

The agents are the ones of every other runtime, with the paper's rule on a sparse graph; service times are simulated.
"""

import gc
import resource
import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from actors.agent.learning import Learned
from actors.cluster.graphs import build_topology
from actors.cluster.plan import AgentPlan, Plan
from actors.cluster.simulation import Simulation
from actors.cluster.topology import TopologySettings
from actors.config import AgentSettings, ExecutorSettings, MemorySettings
from actors.errors import SettingsError
from actors.messages import SetPhase
from actors.routing.quality import Counts
from actors.task import AgentId, Task, TaskId, TaskType
from experiments.perf.figures import figure, show
from serving.api import BackendSpec

DEGREE = 4
SLOTS = 9
SERVICE_S = 10.0
LOAD = 0.7
GOSSIP_S = 5.0
"""Half a step time: at the default of 50 ms nearly all events of so large a graph would be gossip."""
CHUNK = 20_000
"""Tasks that are made at a time: all at once would fill the memory, not the simulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What one simulated stream took."""

    wall_s: float
    events: int
    finished: int
    forwards: int
    peak_gib: float


def main(console: Console, agents: int, tasks: int) -> int:
    """Raises SettingsError for sizes that are no benchmark."""
    if agents <= DEGREE or tasks < 1:
        raise SettingsError(f"perf simulation: --agents must be above {DEGREE}, --tasks at least 1")
    gc.disable()  # agents and messages make no cycles: looking for some takes a fifth of the time and finds none
    try:
        small = [run(100, min(tasks, 10_000)) for _ in range(3)]
        console.print(f"{agents:,} agents, {tasks:,} tasks: a dot is a tenth ", end="")
        large = run(agents, tasks, console)
    finally:
        gc.enable()
    console.print()
    assert large.finished == tasks, "a task was lost"
    method = (
        f"{DEGREE}-regular graph, DEALS V=20, load {LOAD}, gossip each {GOSSIP_S:g} s, no records, "
        f"no cycle collector"
    )
    figures = [
        figure(
            "100 agents: events", [each.events / each.wall_s for each in small], "1/s",
            target=20_000.0, better="higher", method=f"{method}; medians of 3",
        ),
        figure(
            f"{agents:,} agents: events", [large.events / large.wall_s], "1/s",
            target=20_000.0, better="higher", method=method,
        ),
        figure(f"{agents:,} agents: {tasks:,} tasks", [large.wall_s / 60], "min", target=15.0, method=method),
        figure(f"{agents:,} agents: tasks", [large.finished / large.wall_s], "1/s", method=method),
        figure(f"{agents:,} agents: peak memory", [large.peak_gib], "GiB", target=8.0, method="ru_maxrss"),
        figure(f"{agents:,} agents: forwards a task", [large.forwards / large.finished], "", method=method),
    ]  # fmt: skip
    show(figures, "virtual time (one process)", console)
    return 0


def run(agents: int, tasks: int, console: Console | None = None) -> Passed:
    """A Poisson stream over agents that differ in what they are good at."""
    began_s = time.perf_counter()
    plan = _plan(agents)
    simulation = Simulation(plan)
    simulation.broadcast(SetPhase(phase="perf", quality_weight=20.0, frozen=True))
    rng = np.random.default_rng(1)
    rate_per_s = LOAD * agents * SLOTS / SERVICE_S
    made = finished = forwards = 0
    at_s = 0.0
    while made < tasks:
        gaps_s = rng.exponential(1 / rate_per_s, min(CHUNK, tasks - made))
        arrivals = []
        for gap_s in gaps_s:
            at_s += float(gap_s)
            task = Task(
                task_id=TaskId(str(made)),
                task_type=plan.types[int(rng.integers(len(plan.types)))],
                problem="",
            )
            arrivals.append((at_s - simulation.now_s, AgentId(int(rng.integers(agents))), task))
            made += 1
        simulation.submit(arrivals)
        for ended in simulation.run(until_s=at_s if made < tasks else np.inf):
            finished += 1
            forwards += ended.outcome.task.forwards
            if console is not None and finished % max(1, tasks // 10) == 0:
                console.print(".", end="")
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Passed(
        wall_s=time.perf_counter() - began_s,
        events=simulation.events,
        finished=finished,
        forwards=forwards,
        peak_gib=peak_gib,
    )


def _plan(agents: int) -> Plan:
    types = tuple(TaskType(name) for name in ("a", "b", "c", "d"))

    def backend(position: int) -> BackendSpec:
        options = {
            "service_s": SERVICE_S,
            "distribution": "exponential",
            "success_rate_by_type": {
                name: 0.9 if c == position % len(types) else 0.4 for c, name in enumerate(types)
            },
            "seed": position,
        }
        return BackendSpec(kind="simulated", model="m", options=options)

    return Plan(
        name="perf",
        types=types,
        agents=tuple(
            AgentPlan(agent=AgentId(i), name=f"a{i}", slots=SLOTS, backend=backend(i)) for i in range(agents)
        ),
        topology=build_topology(agents, TopologySettings(kind="k_regular", degree=DEGREE)),
        settings=AgentSettings(
            executor=ExecutorSettings(kind="direct"),
            memory=MemorySettings(kind="none"),
            gossip_interval_s=GOSSIP_S,
            recorded_candidates=0,
        ),
        encoder=None,
        learned={
            AgentId(i): Learned(
                counts=Counts(
                    successes_T=tuple(90 if c == i % len(types) else 40 for c in range(len(types))),
                    failures_T=tuple(10 if c == i % len(types) else 60 for c in range(len(types))),
                )
            )
            for i in range(agents)
        },
    )
