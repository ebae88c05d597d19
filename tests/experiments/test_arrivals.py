"""The study of arrivals: its loads are what its rows say."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from actors.errors import SettingsError
from experiments.deals.studies.arrivals import capacity_of
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.cells import run_cell
from experiments.deals.studies.command import study_settings
from experiments.deals.studies.running import run_cells
from experiments.deals.studies.study import StudyFolder, write_study_report
from experiments.launch import load_data
from experiments.phases import build_stream

STUDY = STUDIES["deals-arrivals"]
BURSTS = "bursts of a trace, load 0.7"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace that is busy first and then ten times as calm."""
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "alibaba" / "lora_request_trace_v2026_GenAI.csv"
    path.parent.mkdir()
    gaps_s = np.random.default_rng(1).integers(0, 5, 800) * np.repeat([1, 10], 400)
    begun = datetime(2024, 11, 15, 16, tzinfo=UTC)
    times = [f"{begun + timedelta(seconds=int(at_s)):%Y-%m-%d %H:%M:%S}" for at_s in gaps_s.cumsum()]
    path.write_text("gmt_create\n" + "\n".join(reversed(times)) + "\n")
    return tmp_path


@pytest.mark.parametrize(("warmup", "test"), [(480, 240), (48, 600), (480, 60)])
def test_bursts_have_the_load_that_they_are_named_for(data_dir: Path, warmup: int, test: int) -> None:
    settings = study_settings(
        "deals-arrivals", backend="simulated", seeds=3, warmup=warmup, test=test, data_dir=data_dir
    )
    capacity = capacity_of(settings)
    seen = set()
    for cell in STUDY.cells(settings):
        if (cell.point, cell.arm.name) != (BURSTS, "random"):
            continue
        run = cell.settings()
        stream = build_stream(load_data(run.dataset, warmup=warmup, test=test, seed=run.seed), run)
        for phase in ("warmup", "test"):
            times_s = [task.arrival_s for task in stream if task.phase == phase]
            assert len(times_s) / times_s[-1] == pytest.approx(0.7 * capacity)
            seen.add((times_s[0], times_s[len(times_s) // 2]))
    assert len(seen) == 6, "three seeds and two phases, each with its own stretch of the trace"


def test_placements_of_the_text_books_are_decided_when_a_task_arrives(data_dir: Path) -> None:
    settings = study_settings("deals-arrivals", backend="simulated", seeds=1, data_dir=data_dir)
    cells = {cell.arm.name: cell for cell in STUDY.cells(settings) if cell.point == BURSTS}
    for name in ("random", "join shortest", "power of two"):
        routing = cells[name].settings().pool.settings.mechanism
        assert routing.policy == name.replace(" ", "_")
        assert routing.route_on_arrival
        assert routing.count_in_flight
        assert not routing.forwards_hold_slots
    assert not cells["best quality only"].settings().pool.settings.mechanism.route_on_arrival


def test_a_finished_study_is_reported_where_the_trace_is_not(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = study_settings(
        "deals-arrivals", backend="simulated", seeds=1, warmup=12, test=24, data_dir=data_dir
    )
    folder = StudyFolder.create(tmp_path, settings)
    cells = [cell for cell in STUDY.cells(settings) if cell.arm.name == "DEALS V=20"]
    run_cells(folder, cells, 1, Console(quiet=True))
    for file in (*data_dir.rglob("alibaba/*"), *data_dir.rglob("bursts/*")):
        file.unlink()
    path, _ = write_study_report(folder, STUDY)
    report = path.read_text()
    assert BURSTS in report
    assert f"{len(STUDY.cells(settings)) - len(cells)} cells are missing" in report
    with pytest.raises(SettingsError, match=r"no arrival trace .*--data-dir"):
        run_cell(next(cell for cell in cells if cell.point == BURSTS))
