"""`python -m experiments run <study>`: runs a study, or goes on with one, and shows what it found."""

import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from actors.errors import SettingsError
from experiments.datasets.halves import Half
from experiments.deals.studies.catalogue import study_named
from experiments.deals.studies.pools import StudyBackend, backend_of, pool
from experiments.deals.studies.running import run_cells
from experiments.deals.studies.study import DATA, Study, StudyFolder, StudySettings, write_study_report
from experiments.launch import only_one
from experiments.settings import load_pool

RATED = ("deals-arrivals", "deals-router")
"""Studies whose loads are shares of what the pool serves (--rate)."""


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
    study = study_named(name)
    given = [load_pool(path) for path in pools]
    chosen = _backend(study, backend, given)
    sizes = _sizes(study, chosen, {"seeds": seeds, "warmup": warmup, "test": test})
    if first_seed is not None and first_seed < 0:
        raise SettingsError(f"study {name}: --seed must be at least 0")
    if capacity_per_s is not None and name not in RATED:
        raise SettingsError(f"study {name} has no use for --rate; only {' and '.join(RATED)} take it")
    if capacity_per_s is not None and capacity_per_s <= 0:
        raise SettingsError(f"study {name}: --rate must be above 0")
    own = {"name": DATA[chosen]["name"]} if given else DATA[chosen]
    return StudySettings(
        study=name,
        backend=chosen,
        pools=tuple(given or map(pool, study.pools[chosen])),
        dataset=_dataset(own, dataset or {}),
        data_dir=data_dir and data_dir.expanduser().resolve(),  # a study may go on from another folder
        half=half or (study.half if chosen == "replay" else "all"),
        runtime=_runtime(chosen, runtime),
        capacity_per_s=capacity_per_s,
        changes=tuple(changes),
        first_seed=1 if first_seed is None else first_seed,
        **sizes,
    )


def _sizes(study: Study, backend: StudyBackend, asked: Mapping[str, int | None]) -> dict[str, int]:
    own = study.defaults[backend]
    given = {key: value for key, value in asked.items() if value is not None}
    if ignored := [f"--{key}" for key in given if key not in own]:
        raise SettingsError(
            f"the points of study {study.name} have sizes of their own on {backend} models; leave out "
            f"{', '.join(ignored)}"
        )
    for key, value in given.items():
        if value < (least := 0 if key == "warmup" else 1):
            raise SettingsError(f"study {study.name}: --{key} must be at least {least}")
    return {**own, **given}


def _backend(study: Study, asked: StudyBackend | None, given: Sequence[dict[str, Any]]) -> StudyBackend:
    if len(given) > study.most_pools:
        most = "one pool" if study.most_pools == 1 else f"at most {study.most_pools} pools"
        raise SettingsError(f"study {study.name} takes {most}, {len(given)} were given")
    for name, count in Counter(str(raw.get("name")) for raw in given).items():
        if count > 1:
            raise SettingsError(
                f"{count} pools are named {name!r}, and would be one row: give each its own name"
            )
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
    """Runs what the folder lacks and writes its report. Raises KeyboardInterrupt after saying how to go on, and
    ClusterError where a worker process was ended."""
    study = study_named(folder.settings().study)
    settings = study.settings_of(folder)
    cells = study.cells(settings)
    jobs = 1 if settings.backend == "vllm" else jobs or os.cpu_count() or 1
    console.print(f"study {folder.path.name}: {len(cells)} cells on {jobs} processes", highlight=False)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends a study as Ctrl-C does
    try:
        with only_one(folder.path, f"study {folder.path.name}"):
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
