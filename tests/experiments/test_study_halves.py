"""Recorded rows: what was tuned is tested on other rows, and there are enough of them."""

import os
from pathlib import Path

import pytest

from experiments.datasets.halves import halved
from experiments.datasets.registry import load
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.command import study_settings
from experiments.deals.studies.study import Study
from experiments.phases import build_stream
from experiments.verdicts import FILE

ON_RECORDS = [study for study in STUDIES.values() if "replay" in study.defaults]


@pytest.fixture(scope="module")
def data_dir() -> Path:
    folder = Path(os.environ.get("TRADEWINDS_DATA_DIR", "../shared/data"))
    if not (folder / FILE).is_file():
        pytest.skip(f"recorded MMLU-Pro verdicts are not at {folder}; set TRADEWINDS_DATA_DIR")
    return folder


@pytest.mark.parametrize("study", ON_RECORDS, ids=lambda study: study.name)
def test_whoever_runs_our_router_tests_on_rows_that_it_was_not_tuned_on(
    study: Study, data_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At the study's own sizes."""
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path))
    settings = study_settings(study.name, backend="replay", data_dir=data_dir)
    if not (data_dir / "alibaba").is_dir() and study.name == "deals-arrivals":
        pytest.skip(f"the request trace is not at {data_dir}")
    cells = study.cells(settings)
    tuned = any("drain_time" in change for cell in cells for change in cell.arm.changes)
    assert tuned == (settings.half == "report") == (study.name != "deals-vsweep")
    data_set = load("mmlu_pro", data_dir=data_dir)
    tuning = {row.task_id for row in halved(data_set, "tune").rows}
    rows = halved(data_set, settings.half)
    runs = {(cell.values["test"], cell.seed): cell for cell in cells if cell.seed <= 4}
    for run in (cell.settings() for cell in runs.values()):
        stream = build_stream(rows, run)
        assert len(stream) == run.warmup + run.test
        if tuned:
            assert not tuning.intersection(task.row.task_id for task in stream if task.phase == "test")


def test_of_generated_rows_none_is_kept_back() -> None:
    for backend in ("simulated", "vllm"):
        assert study_settings("deals-accuracy", backend=backend).half == "all"
