"""From a command line to a finished run folder: settings, plan, cluster, runner, and an orderly end."""

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from actors.cluster.api import StartableCluster
from actors.cluster.local import LocalCluster
from actors.cluster.plan import Plan
from actors.errors import SettingsError
from actors.task import TaskType
from experiments.datasets.families.catalogue import FAMILIES
from experiments.datasets.halves import halved
from experiments.datasets.registry import load
from experiments.datasets.rows import DataSet
from experiments.doctor import check_origin
from experiments.machine import describe_machine
from experiments.phases import build_stream, learned_from
from experiments.pools import plan_of
from experiments.progress import Progress
from experiments.record import RunFolder, StreamTask
from experiments.runner import Runner
from experiments.settings import DatasetSettings, RunSettings
from experiments.simulated_run import run_simulated

CLOSE_S = 10.0
"""An interrupted run has ended everything it started within this time."""


def new_run(settings: RunSettings, runs_dir: Path) -> RunFolder:
    """A fresh run folder with its whole task stream. Raises SettingsError or DataSetError; leaves nothing then."""
    return run_at(_new_path(settings, runs_dir), settings)


def run_at(
    path: Path,
    settings: RunSettings,
    altered: Callable[[list[StreamTask]], list[StreamTask]] | None = None,
) -> RunFolder:
    """The same at a given path, with another stream made of the usual one if asked."""
    check_origin()
    data_set = load_data(settings.dataset, warmup=settings.warmup, test=settings.test, seed=settings.seed)
    stream = build_stream(data_set, settings)
    stream = altered(stream) if altered is not None else stream
    plan_of(settings, [task.row for task in stream], {})  # a pool that cannot be built leaves no folder
    machine = describe_machine() | {"dataset_label": data_set.label}
    return RunFolder.create(path, settings, machine, stream)


def old_run(name: str, runs_dir: Path) -> RunFolder:
    """The folder of an earlier run, by id or path."""
    path = Path(name) if Path(name).is_dir() else runs_dir / name
    return RunFolder.open(path)


def execute(folder: RunFolder, console: Console, *arms: RunFolder) -> None:
    """Runs what the folder still lacks; then the test of each further arm on the same agents, which know what they
    learned in the folder's warm-up. Arms differ in the test's settings only. Raises KeyboardInterrupt after an
    orderly end on Ctrl-C or SIGTERM."""
    if not arms and len(folder.results()) == len(folder.tasks()):
        console.print(f"run {folder.run_id}: every task has ended already", highlight=False)
        return
    with ExitStack() as locks:
        for each in (folder, *arms):
            locks.enter_context(only_one(each.path, f"run {each.run_id}"))
        if folder.settings().runtime == "simulation":
            for each in (folder, *arms):
                run_simulated(each, console)
        else:
            # A shell starts what it puts into the background with SIGINT ignored, and asyncio leaves that so.
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                asyncio.run(_execute(folder, console, arms))
            finally:
                signal.signal(signal.SIGINT, before)


async def _execute(folder: RunFolder, console: Console, arms: Sequence[RunFolder]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _cancel_all)
    settings = folder.settings()
    rows = [task.row for task in folder.tasks()]
    types = [TaskType(name) for name in dict.fromkeys(row.task_type for row in rows)]
    plan = plan_of(settings, rows, learned_from(folder.results(), types))
    with Progress(console, [agent.name for agent in plan.agents]) as progress:
        progress.say(f"run {folder.run_id}: starting {len(plan.agents)} agents on runtime {settings.runtime}")
        started_s = time.monotonic()
        cluster = _cluster(plan, settings)
        try:
            await cluster.start()
            progress.say(f"started in {time.monotonic() - started_s:.0f} s")
            await Runner(settings, folder, cluster, progress).run()
            for arm in arms:
                arm.adopt_warmup(folder)
                weight = arm.settings().pool.settings.mechanism.quality_weight
                progress.say(f"run {arm.run_id}: the same agents and test tasks at V={weight:g}")
                await Runner(arm.settings(), arm, cluster, progress).run()
        finally:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await cluster.close()
            except TimeoutError:
                progress.say(
                    f"not everything ended within {CLOSE_S:.0f} s; Ray ends the rest with this process"
                )
            for each in (folder, *arms):
                each.close()


def _cluster(plan: Plan, settings: RunSettings) -> StartableCluster:
    if settings.runtime == "local":
        return LocalCluster(plan)
    from actors.cluster.ray_runtime import RayCluster  # Ray takes a second to import

    return RayCluster(plan, settings.ray)


def load_plan(settings: RunSettings, stream: Sequence[StreamTask]) -> Plan:
    """The plan of a stream, with nothing learned yet. Raises SettingsError."""
    return plan_of(settings, [task.row for task in stream], {})


def load_data(chosen: DatasetSettings, *, warmup: int, test: int, seed: int) -> DataSet:
    """The rows of a run. Raises DataSetError."""
    types = len(chosen.types) or len(FAMILIES)
    generated = max(200, -(-warmup // types) - (-test // types))
    data_set = load(
        chosen.name,
        data_dir=chosen.data_dir,
        download=chosen.download,
        agentnet_split=chosen.agentnet_split,
        seed=seed,
        rows_per_type=generated,
        difficulty=chosen.difficulty,
    )
    return halved(data_set, chosen.half)


def _new_path(settings: RunSettings, runs_dir: Path) -> Path:
    stem = f"{settings.experiment}-{settings.pool.name}-{time.strftime('%Y%m%d-%H%M%S')}-s{settings.seed}"
    path, again = runs_dir / stem, 1
    while path.exists():
        again += 1
        path = runs_dir / f"{stem}-{again}"
    return path


def _cancel_all() -> None:
    """SIGTERM ends a run as Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def only_one(path: Path, what: str) -> Iterator[None]:
    """Holds the folder of a run or study: two processes on it would do everything twice. Raises SettingsError."""
    with (path / "settings.json").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SettingsError(f"{what} is going on in another process; wait for it or end it") from None
        yield
