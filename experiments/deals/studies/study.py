"""A study: a grid of cells, run side by side on all cores, written down one by one, and read back into a report."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from actors.config import Settings
from actors.errors import SettingsError
from experiments.datasets.halves import Half
from experiments.deals.studies.cells import Cell, Figures, run_cell
from experiments.grid import Grid
from experiments.line_plots import LinePlot, draw
from experiments.machine import describe_machine

StudyBackend = Literal["replay", "simulated", "vllm"]


class StudySettings(Settings):
    """What a study was asked for: `settings.json` of its folder."""

    study: str
    backend: StudyBackend
    seeds: int = Field(ge=1)
    first_seed: int = Field(default=1, ge=0)
    warmup: int = Field(ge=0)
    test: int = Field(ge=1)
    data_dir: Path | None = None
    half: Half = "all"
    changes: tuple[str, ...] = ()
    """Assignments that hold for every arm."""

    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One finished cell."""

    point: str
    arm: str
    seed: int
    figures: Figures

    def number(self, name: str) -> float:
        """A figure that is one number."""
        value = self.figures[name]
        assert isinstance(value, int | float), f"{name} of {self.arm} is {value!r}"
        return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """What a study found."""

    grids: Sequence[Grid]
    plots: Sequence[LinePlot] = ()
    notes: Sequence[str] = ()
    """What a reader must know to believe a figure, and the paper's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A named grid with its report."""

    name: str
    summary: str
    """One line, for `list`."""
    defaults: Mapping[StudyBackend, Mapping[str, int]]
    """Seeds, warmup and test for each backend that it runs on; the first is the default."""
    cells: Callable[[StudySettings], list[Cell]]
    report: Callable[[StudySettings, Sequence[Done]], StudyReport]
    half: Half = "all"
    """Which rows it runs on unless asked otherwise."""


class StudyFolder:
    """A study on disk: settings.json, machine.json, cells.jsonl, report/."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def create(runs_dir: Path, settings: StudySettings) -> "StudyFolder":
        """A fresh folder. Raises SettingsError where it cannot be made."""
        stem = f"{settings.study}-{settings.backend}-{time.strftime('%Y%m%d-%H%M%S')}"
        path, again = runs_dir / stem, 1
        while path.exists():
            again += 1
            path = runs_dir / f"{stem}-{again}"
        try:
            path.mkdir(parents=True)
            (path / "settings.json").write_text(settings.model_dump_json(indent=2) + "\n")
            (path / "machine.json").write_text(json.dumps(describe_machine(), indent=2) + "\n")
        except OSError as error:
            raise SettingsError(f"study folder {path} cannot be made ({error}); see --runs-dir") from error
        return StudyFolder(path)

    @staticmethod
    def open(name: str, runs_dir: Path) -> "StudyFolder":
        """An earlier study, by id or path. Raises SettingsError."""
        path = Path(name) if Path(name).is_dir() else runs_dir / name
        if not (path / "settings.json").is_file():
            raise SettingsError(f"no study in {path}; `list` shows the studies there are")
        return StudyFolder(path)

    def settings(self) -> StudySettings:
        return StudySettings.model_validate_json((self.path / "settings.json").read_text())

    def add(self, done: Done) -> None:
        """On disk when this returns."""
        line = {"point": done.point, "arm": done.arm, "seed": done.seed, "figures": done.figures}
        with (self.path / "cells.jsonl").open("ab+") as file:
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a crash has cut the last line short
                    file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def done(self) -> list[Done]:
        """Finished cells; a line that a crash cut short is left out, and its cell run again."""
        path = self.path / "cells.jsonl"
        found = []
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                found.append(Done(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return found


BACKEND_LABELS: Mapping[str, str] = {
    "replay": "recorded (right where real models' published answers were; times are virtual)",
    "simulated": "simulated (success rates and times are settings; times are virtual)",
    "vllm": "vLLM on this machine",
}


def write_study_report(folder: StudyFolder, study: "Study") -> tuple[Path, StudyReport]:
    """Writes report/report.md and its plots over older ones. Works on an unfinished study, and says so."""
    settings, done = folder.settings(), folder.done()
    found = study.report(settings, done)
    where = folder.path / "report"
    where.mkdir(exist_ok=True)
    missing = len(study.cells(settings)) - len(done)
    parts = [
        f"# {study.name}: {study.summary}",
        f"Backend: {BACKEND_LABELS[settings.backend]}. {settings.seeds} seeds from {settings.first_seed} on, "
        f"{settings.warmup} warm-up and {settings.test} test tasks each; intervals are 95 % bootstrap over seeds, "
        f"differences are paired by seed.",
        *([f"> **unfinished: {missing} cells are missing**"] if missing > 0 else []),
        *(f"- {note}" for note in found.notes),
        *(grid.markdown() for grid in found.grids),
        *(f"![{plot.title}]({draw(plot, where).name})" for plot in found.plots),
    ]
    path = where / "report.md"
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return path, found


def is_study(path: Path) -> bool:
    """Whether a folder of `runs` is a study's."""
    return (path / "machine.json").is_file() and not (path / "tasks.jsonl").exists()


def run_cells(folder: StudyFolder, cells: Sequence[Cell], jobs: int, console: Console) -> None:
    """Runs what the folder lacks, seeds in turn so that an interrupted study has whole pairs."""
    asked = folder.settings().changes
    cells = [replace(cell, changes=asked) for cell in cells]
    finished = {f"{done.point}|{done.arm}|{done.seed}" for done in folder.done()}
    left = sorted((cell for cell in cells if cell.key not in finished), key=lambda cell: cell.seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("cells", total=len(cells), completed=len(cells) - len(left))
        said_s = time.monotonic()
        for count, (cell, figures) in enumerate(_figures(left, jobs), start=1):
            folder.add(Done(point=cell.point, arm=cell.arm.name, seed=cell.seed, figures=figures))
            progress.advance(bar)
            if not console.is_terminal and time.monotonic() - said_s > 30:
                said_s = time.monotonic()
                console.print(f"{count} of {len(left)} cells", highlight=False)


def _figures(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Figures]]:
    if jobs == 1:
        for cell in cells:
            yield cell, run_cell(cell)
        return
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawned) as pool:
        waiting = {pool.submit(run_cell, cell): cell for cell in cells}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def grid(done: Sequence[Done]) -> dict[tuple[str, str], list[Done]]:
    """(point, arm) -> its cells by seed, in the order of the study."""
    found: dict[tuple[str, str], list[Done]] = {}
    for each in sorted(done, key=lambda each: each.seed):
        found.setdefault((each.point, each.arm), []).append(each)
    return found


def point_values(pool: Any, settings: StudySettings, **changes: Any) -> dict[str, Any]:
    """Raw run settings that all arms of a point share."""
    values: dict[str, Any] = {
        "experiment": settings.study,
        "pool": pool,
        "runtime": "simulation",
        "warmup": settings.warmup,
        "test": settings.test,
        "dataset": {"name": "families" if settings.backend == "simulated" else "mmlu_pro"},
        "arrivals": {},
    }
    values["dataset"] |= {"data_dir": settings.data_dir and str(settings.data_dir), "half": settings.half}
    return values | changes
