"""A study: a grid of cells written down one by one, and read back into a report."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from actors.config import Settings
from actors.errors import SettingsError
from experiments.datasets.halves import Half
from experiments.deals.experiment import DEMO_TYPES
from experiments.deals.studies.cells import Cell, Figures
from experiments.deals.studies.pools import StudyBackend, pool
from experiments.grid import Grid
from experiments.line_plots import LinePlot, draw
from experiments.machine import describe_machine


class StudySettings(Settings):
    """What a study was asked for: `settings.json` of its folder."""

    study: str
    backend: StudyBackend
    seeds: int = Field(ge=1)
    first_seed: int = Field(default=1, ge=0)
    warmup: int = Field(default=0, ge=0)
    test: int = Field(default=1, ge=1)
    """Tasks of each cell, unless the study has sizes of its own."""
    data_dir: Path | None = None
    half: Half = "all"
    changes: tuple[str, ...] = ()
    """Assignments that hold for every arm."""
    pools: tuple[dict[str, Any], ...] = ()
    """Whole pool files. Empty only in folders of before this was kept: the study's own then."""
    dataset: dict[str, Any] | None = None
    """Raw settings of the data set; None: the backend's own."""
    runtime: Literal["simulation", "ray", "local"] = "simulation"
    capacity_per_s: float | None = Field(default=None, gt=0)
    """Tasks a second with all slots busy, where arrivals at a given load need it and real engines answer."""

    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One finished cell."""

    point: str
    arm: str
    seed: int
    figures: Figures

    @property
    def key(self) -> str:
        """As its cell's."""
        return f"{self.point}|{self.arm}|{self.seed}"

    def number(self, name: str) -> float:
        """A figure that is one number. Raises SettingsError where it has none."""
        value = self.figures.get(name)
        if not isinstance(value, int | float):
            raise self._lacks(name)
        return float(value)

    def numbers(self, name: str) -> list[float]:
        """A figure that is several. Raises SettingsError where it has none."""
        value = self.figures.get(name)
        if not isinstance(value, list):
            raise self._lacks(name)
        return value

    def _lacks(self, name: str) -> SettingsError:
        return SettingsError(
            f"cell {self.key!r} has no figure {name!r}: take its line out of cells.jsonl and go on with run --resume"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """What a study found."""

    grids: Sequence[Grid]
    details: Sequence[Grid] = ()
    """Tables for the report alone: too many for a terminal."""
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
    """Seeds, warmup and test for each backend that it runs on; the first is the default. Without warmup and test the
    points have sizes of their own."""
    pools: Mapping[StudyBackend, tuple[str, ...]]
    """Shipped pools that it runs on unless given others."""
    cells: Callable[[StudySettings], list[Cell]]
    report: Callable[[StudySettings, Sequence[Done]], StudyReport]
    half: Half = "report"
    """Which recorded rows it runs on unless asked otherwise: settings of our router were chosen on some of them."""
    most_pools: int = 1
    """How many pools may be given; each is a point of the grid, by its name."""

    def settings_of(self, folder: "StudyFolder") -> StudySettings:
        """As the folder has them, with the study's own pools where it kept none."""
        settings = folder.settings()
        if settings.pools:
            return settings
        return settings.model_copy(update={"pools": tuple(map(pool, self.pools[settings.backend]))})


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
        """Raises SettingsError where they are damaged or of another version."""
        try:
            return StudySettings.model_validate_json((self.path / "settings.json").read_text())
        except (OSError, ValidationError) as error:
            raise SettingsError(
                f"{self.path / 'settings.json'} is damaged or of another version: {error}"
            ) from error

    def machine(self) -> dict[str, Any]:
        """What it ran on; empty where that was lost."""
        try:
            found = json.loads((self.path / "machine.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

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
        """Finished cells, each once; a line that is damaged is left out, and its cell run again."""
        path = self.path / "cells.jsonl"
        found: dict[str, Done] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                done = Done(**json.loads(line))
            except (ValueError, TypeError):
                continue
            if isinstance(done.figures, dict) and done.figures:
                found.setdefault(done.key, done)  # twice, it would count as two seeds
        return list(found.values())


INTERVALS = (
    "Intervals are 95 % over seeds (Student's t), differences are paired by seed; with fewer than 5 seeds accuracies "
    "have score intervals over all their tasks, and other figures none."
)
SAME_QUESTIONS = "intervals: over seeds of this question set"
"""Of recorded verdicts: two seeds share many of their questions, and none has any other."""


def backend_label(settings: StudySettings, machine: Mapping[str, Any], *, short: bool = False) -> str:
    """What answered; `short` for the title of a plot."""
    if short and settings.backend != "vllm":
        return {"replay": "recorded"}.get(settings.backend, settings.backend)
    if settings.backend == "replay":
        return "recorded (right where real models' published answers were; times are virtual)"
    if settings.backend == "simulated":
        return "simulated (success rates and times are settings; times are virtual)"
    agents = [agent["backend"] for raw in settings.pools for agent in raw["agents"]]
    kinds = Counter(agent["kind"] for agent in agents)
    models = ", ".join(dict.fromkeys(agent.get("model", "") for agent in agents))
    place = ", ".join(machine["gpus"]) if machine.get("gpus") else "CPU" if machine else "an unknown machine"
    names = {"vllm_engine": f"vLLM on {place}", "openai_http": "OpenAI-compatible servers"}
    made_by = " and ".join(names.get(kind, kind) for kind in kinds)
    return made_by if short else f"{made_by}, runtime {settings.runtime} ({models})"


def write_study_report(folder: StudyFolder, study: "Study") -> tuple[Path, StudyReport]:
    """Writes report/report.md and its plots over older ones. Works on an unfinished study, and says so."""
    settings, done = study.settings_of(folder), folder.done()
    found = _scoped(study.report(settings, done), settings)
    where = folder.path / "report"
    where.mkdir(exist_ok=True)
    cells = study.cells(settings)
    missing = len({cell.key for cell in cells} - {each.key for each in done})
    found = replace(found, notes=[*what_was_run(settings), *sizes(cells), *found.notes])

    def labelled(plot: LinePlot) -> LinePlot:
        return replace(plot, title=f"{plot.title} ({backend_label(settings, folder.machine(), short=True)})")

    parts = [
        f"# {study.name}: {study.summary}",
        f"Backend: {backend_label(settings, folder.machine())}. Seeds from {settings.first_seed} on. {INTERVALS}",
        *([f"> **unfinished: {missing} cells are missing**"] if missing > 0 else []),
        *(f"- {note}" for note in found.notes),
        *(grid.markdown() for grid in (*found.grids, *found.details)),
        *(f"![{plot.title}]({draw(plot, where).name})" for plot in map(labelled, found.plots)),
    ]
    path = where / "report.md"
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return path, found


def what_was_run(settings: StudySettings) -> list[str]:
    """The data, the pools, and what was changed in every row."""
    data = DATA[settings.backend] if settings.dataset is None else settings.dataset
    options = [f"{key} {value}" for key, value in data.items() if key != "name"]
    rows = {"all": "all rows", "tune": "the tuning rows only (half tune)"}.get(
        settings.half, "tested on rows outside of the tuning half (half report)"
    )
    said = [
        f"Data set {', '.join([data['name'], *options])}: {rows}. Pools: "
        f"{', '.join(raw['name'] for raw in settings.pools)}."
    ]
    if settings.changes:
        said.append(
            f"Changed in every row (--set): {', '.join(f'`{change}`' for change in settings.changes)}."
        )
    return said


def sizes(cells: Sequence[Cell]) -> list[str]:
    """How many seeds and tasks each point really has; one line for all points that are alike."""
    seeds: Counter[tuple[str, str]] = Counter((cell.point, cell.arm.name) for cell in cells)
    of_point: dict[str, set[str]] = {}
    for cell in cells:
        warmup = 0 if cell.arm.knows_rates else cell.values["warmup"]
        tasks = f"{warmup} warm-up and {cell.values['test']} test tasks"
        of_point.setdefault(cell.point, set()).add(f"{seeds[cell.point, cell.arm.name]} seeds of {tasks}")
    alike: dict[str, list[str]] = {}
    for point, found in of_point.items():
        alike.setdefault(" or ".join(sorted(found)), []).append(point)
    if len(alike) == 1:
        return [f"Each row: {size}." for size in alike]
    return [f"Each row of {'; '.join(points)}: {size}." for size, points in alike.items()]


def _scoped(found: StudyReport, settings: StudySettings) -> StudyReport:
    """The report, in which each table with intervals says what they are over, where that is less than it seems."""
    if settings.backend != "replay":
        return found

    def scoped(grid: Grid) -> Grid:
        if not any(" [" in cell for row in grid.rows for cell in row):
            return grid
        return replace(grid, note=f"{grid.note}; {SAME_QUESTIONS}" if grid.note else SAME_QUESTIONS)

    return replace(found, grids=[*map(scoped, found.grids)], details=[*map(scoped, found.details)])


def is_study(path: Path) -> bool:
    """Whether a folder of `runs` is a study's, as its settings tell."""
    try:
        return "study" in json.loads((path / "settings.json").read_text())
    except (OSError, ValueError, TypeError):
        return False


def grid(done: Sequence[Done]) -> dict[tuple[str, str], list[Done]]:
    """(point, arm) -> its cells by seed, in the order of the study."""
    found: dict[tuple[str, str], list[Done]] = {}
    for each in sorted(done, key=lambda each: each.seed):
        found.setdefault((each.point, each.arm), []).append(each)
    return found


DATA: Mapping[StudyBackend, Mapping[str, Any]] = {
    "replay": {"name": "mmlu_pro"},
    "simulated": {"name": "families"},
    "vllm": {"name": "families", "types": DEMO_TYPES, "difficulty": 1},
}
"""Data sets of the shipped pools."""


def point_values(raw: Any, settings: StudySettings, **changes: Any) -> dict[str, Any]:
    """Raw run settings that all arms of a point share."""
    data = dict(DATA[settings.backend] if settings.dataset is None else settings.dataset)
    data |= {"data_dir": settings.data_dir and str(settings.data_dir), "half": settings.half}
    values: dict[str, Any] = {
        "experiment": settings.study,
        "pool": raw,
        "runtime": settings.runtime,
        "warmup": settings.warmup,
        "test": settings.test,
        "dataset": data,
        "arrivals": {},
    }
    return values | changes
