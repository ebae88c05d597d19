"""Cells on real engines: each is an ordinary run, kept whole in the study's folder."""

import itertools
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from actors.errors import SettingsError
from experiments.active_time import active_time
from experiments.datasets.rows import Row
from experiments.deals.studies.cells import Cell, Figures, figures_of
from experiments.deals.studies.votes import voted, with_copies
from experiments.launch import execute, run_at
from experiments.pools import plan_of
from experiments.record import RunFolder
from experiments.trial import trial_of


def run_real(where: Path, cells: Sequence[Cell], console: Console) -> Iterator[tuple[Cell, Figures]]:
    """One after the other: engines share the machine. Neighbouring cells that differ in V alone are tested on the
    same agents after one warm-up, which has no V. Raises SettingsError before anything starts."""
    groups = [list(group) for _, group in itertools.groupby(cells, key=_shared)]
    began_s = time.monotonic()
    for position, group in enumerate(groups):
        spent_s = time.monotonic() - began_s
        left = (
            f", about {spent_s / position * (len(groups) - position) / 60:.0f} min left" if position else ""
        )
        names = ", ".join(dict.fromkeys(cell.arm.name for cell in group))
        console.print(
            f"start {position + 1} of {len(groups)}{left}: {group[0].point} {names}, seed {group[0].seed}",
            highlight=False,
        )
        yield from _run_group(where, group, console)


def _shared(cell: Cell) -> str:
    """Equal for cells that can share their agents. Raises SettingsError for one that real engines cannot run."""
    if cell.arm.knows_rates:
        raise SettingsError(f"arm {cell.arm.name!r}: true success rates of real engines are not known")
    settings = cell.settings()
    mechanism = settings.pool.settings.mechanism.model_copy(update={"quality_weight": 0.0})
    agent_settings = settings.pool.settings.model_copy(update={"mechanism": mechanism})
    pool = settings.pool.model_copy(update={"settings": agent_settings})
    key = settings.model_copy(update={"pool": pool}).model_dump_json()
    return f"{key}|{cell.arm.copies}|{cell.arm.at}"


def _run_group(where: Path, group: Sequence[Cell], console: Console) -> Iterator[tuple[Cell, Figures]]:
    folders = []
    for position, cell in enumerate(group):
        path = where / _name(cell)
        if position and path.exists() and not _ended(path):
            shutil.rmtree(
                path
            )  # it holds another run's warm-up and part of its own test; that is soon done again
        folders.append(_folder(path, cell))
    first, *others = folders
    others = [folder for folder in others if not _ended(folder.path)]
    if others or not _ended(first.path):
        execute(first, console, *others)
    for cell, folder in zip(group, folders, strict=True):
        yield cell, figures_of_run(folder, cell)


def _folder(path: Path, cell: Cell) -> RunFolder:
    if (path / "tasks.jsonl").exists():
        return RunFolder.open(path)
    shutil.rmtree(path, ignore_errors=True)  # it never started
    arm = cell.arm
    if arm.copies == 1:
        return run_at(path, cell.settings())
    return run_at(path, cell.settings(), lambda stream: with_copies(stream, arm.copies, arm.at))


def _ended(path: Path) -> bool:
    folder = RunFolder.open(path)
    return len(folder.results()) == len(folder.tasks())


def _name(cell: Cell) -> str:
    words = re.sub(r"[^A-Za-z0-9.=]+", "-", f"{cell.point} {cell.arm.name}").strip("-")
    return f"{words}-s{cell.seed}"


def figures_of_run(folder: RunFolder, cell: Cell) -> Figures:
    """The figures of a finished run, as of a cell in memory; of a resumed one only the time that it worked counts."""
    settings, tasks, results = folder.settings(), folder.tasks(), folder.results()
    test = [result for result in results if result.phase == "test"]
    time_of_test = active_time("test", folder.marks(), [result.finished.finished_wall_s for result in test])
    trial = trial_of(plan_of(settings, [task.row for task in tasks], {}), results, time_of_test.total_s)
    if cell.arm.copies == 1:
        return figures_of(trial, None)
    rows = [task.row for task in tasks if task.row.task_id.endswith("#0")]
    return figures_of(voted(trial, [_original(row) for row in rows], cell.arm.copies), None, vote=True)


def _original(row: Row) -> Row:
    return replace(row, task_id=row.task_id.removesuffix("#0"))
