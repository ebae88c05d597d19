"""How tasks arrive: at once, as a Poisson stream at several loads, and in the bursts of a production trace."""

import csv
import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from actors.errors import SettingsError
from experiments.datasets.reading import read_text
from experiments.datasets.registry import default_cache_dir, default_data_dir
from experiments.deals.studies.arms import baselines, deals, router
from experiments.deals.studies.cells import Cell
from experiments.deals.studies.pools import agent_names, capacity_per_s
from experiments.deals.studies.study import Done, Study, StudyReport, StudySettings, point_values
from experiments.deals.studies.tables import arm_table, overview

LOADS = (0.5, 0.7, 0.85, 0.95)
TRACE = Path("alibaba") / "lora_request_trace_v2026_GenAI.csv"
BURST_LOAD = 0.7
OTHERS = ("random", "join shortest", "power of two", "best quality only")


def trace_times(folder: Path) -> list[float]:
    """Seconds from the trace's first request to each of its requests, ascending. Raises DataSetError."""
    lines = csv.DictReader(read_text(folder / TRACE).splitlines())
    times_s = sorted(
        datetime.strptime(line["gmt_create"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        for line in lines
    )
    return [at_s - times_s[0] for at_s in times_s]


def _burst_file(settings: StudySettings) -> Path:
    """The trace's arrival times, one a line, as runs read them; the name tells the content. Where there is no trace,
    its own place: a report on cells that are finished needs none, and a run says that it is not there."""
    folder = settings.data_dir or default_data_dir() or default_cache_dir()
    if not (folder / TRACE).is_file():
        return folder / TRACE
    content = "".join(f"{at_s:.0f}\n" for at_s in trace_times(folder)).encode()
    path = default_cache_dir() / "bursts" / f"{hashlib.sha256(content).hexdigest()[:16]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(path)
    return path


def capacity_of(settings: StudySettings) -> float:
    """Tasks a second with all slots busy. Raises SettingsError where nobody knows it."""
    if settings.capacity_per_s is not None:
        return settings.capacity_per_s
    if settings.backend == "vllm":
        raise SettingsError(
            f"study {settings.study}: loads are shares of what the pool can serve, which real engines do not tell; "
            "give it with --rate, in tasks a second (deals-vsweep prints tasks/min at V=0)"
        )
    return capacity_per_s(settings.pools[0])


def _cells(settings: StudySettings) -> list[Cell]:
    raw, capacity = settings.pools[0], capacity_of(settings)
    points: dict[str, dict[str, object]] = {"all at once": {"kind": "all_at_once"}}
    for load in LOADS:
        points[f"Poisson, load {load:g}"] = {"kind": "poisson", "rate_per_s": load * capacity}
    points[f"bursts of a trace, load {BURST_LOAD:g}"] = {
        "kind": "trace",
        "trace": str(_burst_file(settings)),
        "trace_rate_per_s": BURST_LOAD * capacity,
    }
    arms = [
        *(arm for arm in baselines(agent_names(raw)) if arm.name in OTHERS),
        deals(0), deals(20), deals(80), router(online=False), router(),
        router("our router V=40, 20 s target", online=False, parts={"latency_target_s": 20}),
    ]  # fmt: skip
    return [
        Cell(arm=arm, point=point, seed=seed, values=point_values(raw, settings, arrivals=arrivals))
        for point, arrivals in points.items()
        for arm in arms
        for seed in settings.seed_range()
    ]


def _report(settings: StudySettings, done: Sequence[Done]) -> StudyReport:
    points = dict.fromkeys(each.point for each in done)
    return StudyReport(
        grids=[overview("arrivals", done, arms_down=True)],
        details=[arm_table(point, done, "DEALS V=20", point) for point in points],
        notes=[
            f"Load 1 is all slots busy all the time: {capacity_of(settings):.2f} tasks a second here. The bursts have "
            "the gaps of a production trace of image-generation requests (Alibaba cluster-trace-v2026-GenAI): each "
            "seed and phase takes another stretch of it, scaled to the mean load; its nights are in it, so that the "
            "load of its days is higher. The paper has no such study.",
        ],
    )


ARRIVALS = Study(
    name="deals-arrivals",
    summary="arrivals at once, Poisson at four loads, and in a production trace's bursts",
    defaults={
        "replay": {"seeds": 20, "warmup": 700, "test": 700},
        "simulated": {"seeds": 20, "warmup": 480, "test": 960},
        "vllm": {"seeds": 1, "warmup": 100, "test": 90},
    },
    pools={
        "replay": ("recorded-x3",),
        "simulated": ("simulated-unlike-x3",),
        "vllm": ("specialists",),
    },
    cells=_cells,
    report=_report,
)
