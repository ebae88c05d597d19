"""How long a real model's calls take, alone and side by side: `python -m experiments perf calls --pool POOL`.

Prints the options that make a simulated model as slow: mean seconds by purpose, the exponent e of the slowdown
n ** e of n calls in flight, fitted through the measured concurrencies (least squares in logarithms), and how the times
spread around their means, as quantiles.
"""

import asyncio
import itertools
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console

from actors.config import ExecutorSettings
from actors.steps.agentnet import agentnet
from actors.steps.moves import Colleague, Recall, Recollection, Surroundings
from actors.task import AgentId, Task, TaskId, TaskType
from experiments.datasets.families.catalogue import load_families
from experiments.grid import Grid
from experiments.settings import PoolSettings, load_pool
from serving.api import Backend, BackendSpec, Request
from serving.build import build_backend

IN_FLIGHT = (1, 3, 9)
TASKS = {1: 4, 3: 9, 9: 18}
"""Tasks at each concurrency; those that ran beside idle workers are not counted."""
QUANTILES = 16
"""Of the spread of times."""


def main(console: Console, pool_file: Path) -> int:
    pool = PoolSettings.model_validate(load_pool(pool_file))
    chosen = pool.agents[0].backend
    spec = BackendSpec(kind=chosen.kind, model=chosen.model, options=dict(chosen.options))
    console.print(
        f"measuring {chosen.kind} {chosen.model} with max_tokens {pool.settings.executor.max_tokens}"
    )
    durations_s = asyncio.run(measure(build_backend(spec), pool.settings.executor))
    purposes = list(durations_s[1])
    rows = [
        (purpose, *(f"{statistics.mean(durations_s[n][purpose]):.3f}" for n in IN_FLIGHT))
        for purpose in purposes
    ]
    slowdowns = {n: slowdown(durations_s, n) for n in IN_FLIGHT}
    rows.append(("all, over one in flight", *(f"{slowdowns[n]:.2f}" for n in IN_FLIGHT)))
    header = ("call", *(f"{n} in flight, s" for n in IN_FLIGHT))
    console.print(Grid(title="mean time of a call", header=header, rows=tuple(rows)).rich())
    options = {
        "service_s_by_purpose": {
            purpose: round(statistics.mean(durations_s[1][purpose]), 3) for purpose in purposes
        },
        "slowdown_exponent": round(exponent(slowdowns), 3),
        "distribution": "measured",
        "service_shape": [round(value, 3) for value in shape(durations_s)],
    }
    console.print("options of a simulated model as slow as this one:", json.dumps(options), soft_wrap=True)
    return 0


def slowdown(durations_s: dict[int, dict[str, list[float]]], n: int) -> float:
    """How much longer a call takes beside n - 1 others: the mean over purposes of the ratio of means."""
    return statistics.mean(
        statistics.mean(durations_s[n][purpose]) / statistics.mean(alone)
        for purpose, alone in durations_s[1].items()
    )


def shape(durations_s: dict[int, dict[str, list[float]]]) -> list[float]:
    """Quantiles of the times of all calls, each over the mean of its purpose at its concurrency."""
    ratios = [
        duration_s / statistics.mean(alike)
        for by_purpose in durations_s.values()
        for alike in by_purpose.values()
        for duration_s in alike
    ]
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.quantile(ratios, levels).tolist()  # type: ignore[no-any-return]


def exponent(slowdowns: dict[int, float]) -> float:
    """e of slowdown = n ** e, through (1, 1)."""
    points = [(math.log(n), math.log(ratio)) for n, ratio in slowdowns.items() if n > 1]
    return sum(x * y for x, y in points) / sum(x * x for x, _ in points)


async def measure(backend: Backend, executor: ExecutorSettings) -> dict[int, dict[str, list[float]]]:
    """Seconds of each call by concurrency and purpose."""
    await backend.start()
    try:
        tasks = _tasks()
        await asyncio.gather(*(_work(backend, next(tasks), executor, {}) for _ in range(2)))  # warm
        found = {}
        for n in IN_FLIGHT:
            found[n] = await _at(backend, executor, tasks, n)
        return found
    finally:
        await backend.close()


async def _at(
    backend: Backend, executor: ExecutorSettings, tasks: Iterator[Task], in_flight: int
) -> dict[str, list[float]]:
    """A closed loop: each worker begins its next task at once; what runs beside idle ones is not counted."""
    durations_s: dict[str, list[float]] = defaultdict(list)
    counted = itertools.count()
    busy = in_flight

    async def worker() -> None:
        nonlocal busy
        while next(counted) < TASKS[in_flight]:
            own: dict[str, list[float]] = defaultdict(list)
            await _work(backend, next(tasks), executor, own)
            if busy == in_flight:
                for purpose, values in own.items():
                    durations_s[purpose] += values
        busy -= 1

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return dict(durations_s)


async def _work(
    backend: Backend, task: Task, executor: ExecutorSettings, durations_s: dict[str, list[float]]
) -> None:
    """One step of AgentNet, whose calls include all of DEALS' (the router's in place of the action's)."""
    colleagues = tuple(Colleague(agent=AgentId(j), quality=0.5, load=3, slots=9) for j in range(3))
    step = agentnet(task, AgentId(0), executor, Surroundings(own=colleagues[0], neighbours=colleagues[1:]))
    calls = 0
    try:
        move = next(step)
        while True:
            if isinstance(move, Recall):
                move = step.send(Recollection())
                continue
            calls += 1
            request = Request(
                request_id=f"{task.task_id}/{calls}", prompt=move.prompt, sampling=move.sampling
            )
            completion = await backend.generate(request)
            durations_s.setdefault(move.purpose, []).append(completion.duration_s)
            move = step.send(completion)
    except StopIteration:
        return


def _tasks() -> Iterator[Task]:
    rows = load_families(seed=99, rows_per_type=60).rows
    for number in itertools.count():
        row = rows[(number * 61) % len(rows)]
        yield Task(
            task_id=TaskId(f"{row.task_id}/{number}"),
            task_type=TaskType(row.task_type),
            problem=row.problem,
            answer_format=row.answer_format,
            choices=row.choices,
        )
