"""What a study refuses before it leaves a folder: changes over its own arms, and settings that cannot be run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from actors.errors import SettingsError
from experiments.datasets.rows import Row
from experiments.deals.studies.cells import Cell, data_of
from experiments.deals.studies.study import Study, StudySettings
from experiments.phases import build_stream
from experiments.pools import plan_of
from experiments.settings import RunSettings

FIXED: Mapping[str, str] = {
    "experiment": "the study's name",
    "seed": "--seed and --seeds",
    "warmup": "--warmup",
    "test": "--test",
    "runtime": "--runtime",
    "dataset.name": "--dataset",
    "dataset.types": "--types",
    "dataset.data_dir": "--data-dir",
    "dataset.download": "--download",
    "dataset.half": "--half",
    "pool.name": "the pool file (--pool)",
    "pool.agents": "the pool file (--pool)",
    "arrivals": "the study's points (deals-arrivals compares ways to arrive)",
}
"""Setting -> what fixes it in every study."""
FIXED_BY_POINT: Mapping[str, Mapping[str, str]] = {
    "deals-topologies": {"pool.topology": "the study's points"},
}


def check_study(study: Study, settings: StudySettings) -> None:
    """Builds the settings, the stream and the plan of one cell for each arm and point. Raises SettingsError or
    DataSetError for what cannot be run, and for a change that would be at odds with what a row is called."""
    cells = study.cells(settings)
    _check_changes(study.name, settings.changes, cells)
    streams: dict[str, list[Row]] = {}
    for cell in {(each.point, each.arm.name): each for each in reversed(cells)}.values():
        run = replace(cell, changes=settings.changes).settings()
        key = _stream_key(run)
        if key not in streams:
            rows = (task.row for task in build_stream(data_of(run), run))
            streams[key] = list({row.task_type: row for row in rows}.values())
        plan_of(run, streams[key], {})


def _stream_key(run: RunSettings) -> str:
    """Equal for cells that differ in nothing that a stream's making depends on; rates only stretch it."""
    arrivals = run.arrivals.model_copy(update={"rate_per_s": 1.0})
    parts = (run.dataset, arrivals, run.warmup, run.test, run.seed, run.ingress, len(run.pool.agents))
    return repr(parts)


def _check_changes(name: str, changes: Sequence[str], cells: Sequence[Cell]) -> None:
    """Raises SettingsError for a change of what a flag, an arm or a point fixes: rows would not be what they say."""
    by_arm = {
        assignment.partition("=")[0]: f"arm {cell.arm.name!r}"
        for cell in reversed(cells)
        for assignment in cell.arm.changes
    }
    for change in changes:
        key = change.partition("=")[0]
        for fixed, by in {**FIXED, **FIXED_BY_POINT.get(name, {}), **by_arm}.items():
            if f"{key}.".startswith(f"{fixed}.") or f"{fixed}.".startswith(f"{key}."):
                raise SettingsError(
                    f"study {name}: --set {key} would change what {by} fixes ({fixed}) in every row; leave it out, "
                    "or give a single run that setting"
                )
