"""`python -m experiments run <study>`: runs a study, or goes on with one, and shows what it found."""

import os
from pathlib import Path

from rich.console import Console

from actors.errors import SettingsError
from experiments.datasets.halves import Half
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.study import (
    Study,
    StudyBackend,
    StudyFolder,
    StudySettings,
    run_cells,
    write_study_report,
)


def study_settings(
    name: str,
    *,
    backend: StudyBackend | None,
    seeds: int | None,
    first_seed: int | None,
    warmup: int | None,
    test: int | None,
    data_dir: Path | None,
    half: Half | None,
    changes: list[str],
) -> StudySettings:
    """The study's own defaults under what was given. Raises SettingsError for a backend it does not run on."""
    study = STUDIES[name]
    chosen = backend if backend is not None else next(iter(study.defaults))
    if chosen not in study.defaults:
        raise SettingsError(f"study {name} runs on {' or '.join(study.defaults)}, not on {chosen}")
    values = dict(study.defaults[chosen])
    given = {"seeds": seeds, "warmup": warmup, "test": test}
    values |= {key: value for key, value in given.items() if value is not None}
    if values["seeds"] < 1 or values["test"] < 1 or values["warmup"] < 0:
        raise SettingsError(f"study {name}: --seeds and --test must be at least 1, --warmup at least 0")
    return StudySettings(
        study=name,
        backend=chosen,
        data_dir=data_dir,
        half=half or study.half,
        changes=tuple(changes),
        first_seed=1 if first_seed is None else first_seed,
        **values,
    )


def run_study(folder: StudyFolder, jobs: int | None, console: Console) -> None:
    """Runs what the folder lacks and writes its report. Raises KeyboardInterrupt after writing what there is."""
    settings = folder.settings()
    study = STUDIES[settings.study]
    cells = study.cells(settings)
    jobs = jobs or os.cpu_count() or 1
    console.print(f"study {folder.path.name}: {len(cells)} cells on {jobs} processes", highlight=False)
    try:
        run_cells(folder, cells, jobs, console)
    except KeyboardInterrupt:
        console.print(f"interrupted; go on with: run --resume {folder.path}", highlight=False)
        raise
    show_study(folder, study, console)


def show_study(folder: StudyFolder, study: Study, console: Console) -> None:
    """Writes the report anew and prints its tables."""
    path, found = write_study_report(folder, study)
    for note in found.notes:
        console.print(f"- {note}", highlight=False)
    for grid in found.grids:
        console.print(grid.rich())
    console.print(f"report and plots: {path}", highlight=False, soft_wrap=True)
