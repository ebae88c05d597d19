"""Runs the cells that a study still lacks: virtual ones on all cores, real ones one after the other."""

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.connection import wait

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from actors.errors import ClusterError
from experiments.deals.studies.cells import Cell, Figures, run_cell
from experiments.deals.studies.real_cells import run_real
from experiments.deals.studies.study import Done, StudyFolder


def run_cells(folder: StudyFolder, cells: Sequence[Cell], jobs: int, console: Console) -> None:
    """Runs what the folder lacks, seeds in turn so that an interrupted study has whole pairs."""
    settings = folder.settings()
    cells = [replace(cell, changes=settings.changes) for cell in cells]
    finished = {f"{done.point}|{done.arm}|{done.seed}" for done in folder.done()}
    left = sorted((cell for cell in cells if cell.key not in finished), key=lambda cell: cell.seed)
    if settings.backend == "vllm":
        for cell, figures in run_real(folder.path / "runs", left, console):
            folder.add(_done(cell, figures))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("cells", total=len(cells), completed=len(cells) - len(left))
        said_s = time.monotonic()
        for count, (cell, figures) in enumerate(_virtual(left, jobs), start=1):
            folder.add(_done(cell, figures))
            progress.advance(bar)
            if not console.is_terminal and time.monotonic() - said_s > 30:
                said_s = time.monotonic()
                console.print(f"{count} of {len(left)} cells", highlight=False)


def _done(cell: Cell, figures: Figures) -> Done:
    return Done(point=cell.point, arm=cell.arm.name, seed=cell.seed, figures=figures)


def _virtual(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Figures]]:
    if jobs == 1:
        for cell in cells:
            yield cell, run_cell(cell)
        return
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawned, initializer=_end_with_parent) as pool:
        waiting = {pool.submit(run_cell, cell): cell for cell in cells}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool as error:
            raise ClusterError(
                f"a worker process of {jobs} was ended from outside, or could not start: is there memory for so many? "
                "Finished cells are kept; go on with run --resume, and fewer --jobs"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """A worker waits for work for ever; nobody else would end it where its study was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only in a worker"
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
