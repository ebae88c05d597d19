"""`python -m experiments run <study>`: runs a study, or goes on with one, and shows what it found."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from actors.errors import SettingsError
from experiments.datasets.halves import Half
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.pools import StudyBackend, backend_of, pool
from experiments.deals.studies.running import run_cells
from experiments.deals.studies.study import DATA, Study, StudyFolder, StudySettings, write_study_report
from experiments.settings import load_pool


def study_settings(
    name: str,
    *,
    backend: StudyBackend | None = None,
    pools: Sequence[Path] = (),
    seeds: int | None = None,
    first_seed: int | None = None,
    warmup: int | None = None,
    test: int | None = None,
    dataset: dict[str, Any] | None = None,
    data_dir: Path | None = None,
    half: Half | None = None,
    runtime: Literal["ray", "local", "simulation"] | None = None,
    capacity_per_s: float | None = None,
    changes: Sequence[str] = (),
) -> StudySettings:
    """The study's own defaults under what was given. Raises SettingsError for what it cannot run on."""
    study = STUDIES[name]
    given = [load_pool(path) for path in pools]
    chosen = _backend(study, backend, given)
    values = dict(study.defaults[chosen])
    sizes = {"seeds": seeds, "warmup": warmup, "test": test}
    values |= {key: value for key, value in sizes.items() if value is not None}
    if values["seeds"] < 1 or values["test"] < 1 or values["warmup"] < 0:
        raise SettingsError(f"study {name}: --seeds and --test must be at least 1, --warmup at least 0")
    if (capacity_per_s or 1) <= 0:
        raise SettingsError(f"study {name}: --rate must be above 0")
    own = {"name": DATA[chosen]["name"]} if given else DATA[chosen]
    return StudySettings(
        study=name,
        backend=chosen,
        pools=tuple(given or map(pool, study.pools[chosen])),
        dataset=_dataset(own, dataset or {}),
        data_dir=data_dir,
        half=half or (study.half if chosen == "replay" else "all"),
        runtime=_runtime(chosen, runtime),
        capacity_per_s=capacity_per_s,
        changes=tuple(changes),
        first_seed=1 if first_seed is None else first_seed,
        **values,
    )


def _backend(study: Study, asked: StudyBackend | None, given: Sequence[dict[str, Any]]) -> StudyBackend:
    if len(given) > study.most_pools:
        most = "one pool" if study.most_pools == 1 else f"at most {study.most_pools} pools"
        raise SettingsError(f"study {study.name} takes {most}, {len(given)} were given")
    found = backend_of(given) if given else None
    if found is not None and asked is not None and asked != found:
        raise SettingsError(f"the pool's backend is {found}; leave out --backend {asked}")
    chosen: StudyBackend = next(each for each in (found, asked, *study.defaults) if each is not None)
    if chosen not in study.defaults:
        raise SettingsError(f"study {study.name} runs on {' or '.join(study.defaults)}, not on {chosen}")
    return chosen


def _dataset(own: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Another data set has other types and no difficulty."""
    if asked.get("name", own["name"]) == own["name"]:
        return dict(own) | asked
    return asked


def _runtime(
    backend: StudyBackend, asked: Literal["ray", "local", "simulation"] | None
) -> Literal["ray", "local", "simulation"]:
    if backend == "vllm":
        if asked == "simulation":
            raise SettingsError("real engines work in real time: --runtime ray or local")
        return asked or "ray"
    if asked not in {None, "simulation"}:
        raise SettingsError(
            f"a study on {backend} models runs under virtual time; leave out --runtime {asked}"
        )
    return "simulation"


def run_study(folder: StudyFolder, jobs: int | None, console: Console) -> None:
    """Runs what the folder lacks and writes its report. Raises KeyboardInterrupt after saying how to go on."""
    study = STUDIES[folder.settings().study]
    settings = study.settings_of(folder)
    cells = study.cells(settings)
    jobs = 1 if settings.backend == "vllm" else jobs or os.cpu_count() or 1
    console.print(f"study {folder.path.name}: {len(cells)} cells on {jobs} processes", highlight=False)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends a study as Ctrl-C does
    try:
        run_cells(folder, cells, jobs, console)
    except KeyboardInterrupt:
        console.print(f"interrupted; go on with: run --resume {folder.path}", highlight=False, soft_wrap=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    show_study(folder, study, console)


def show_study(folder: StudyFolder, study: Study, console: Console) -> None:
    """Writes the report anew and prints its tables."""
    path, found = write_study_report(folder, study)
    for note in found.notes:
        console.print(f"- {note}", highlight=False)
    for grid in found.grids:
        console.print(grid.rich())
    console.print(f"report and plots: {path}", highlight=False, soft_wrap=True)
