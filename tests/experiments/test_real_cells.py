"""Cells that run in real time, each as an ordinary run. The engines here are simulated; what drives them is not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actors.errors import SettingsError
from experiments.deals.studies import real_cells
from experiments.deals.studies.accuracy import oracle_notes
from experiments.deals.studies.arms import (
    CONCURRENT,
    SEQUENTIAL,
    Arm,
    baselines,
    deals,
    mechanism,
    self_consistency,
)
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.cells import Cell, run_cell
from experiments.deals.studies.command import study_settings
from experiments.deals.studies.pools import agent_names, pool
from experiments.deals.studies.real_cells import run_real
from experiments.deals.studies.study import Done, point_values
from experiments.deals.studies.throughput import SPLITTING, measured_ceiling
from experiments.launch import execute
from experiments.record import RunFolder

POOL = pool("simulated-unlike-x3")
QUIET = Console(quiet=True)
FAST = tuple(f"pool.agents.{n}.backend.options.service_s=0.01" for n in range(3))


def cells(*arms: Arm, seed: int = 1, **changes: Any) -> list[Cell]:
    settings = study_settings("deals-vsweep", backend="simulated", seeds=1, warmup=24, test=24)
    values = point_values(POOL, settings, runtime="local", **changes)
    return [Cell(arm=arm, point="p", seed=seed, values=values, changes=FAST) for arm in arms]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Which folders each start of the engines served."""
    found: list[list[str]] = []

    def counted(folder: RunFolder, console: Console, *others: RunFolder) -> None:
        found.append([each.run_id for each in (folder, *others)])
        execute(folder, console, *others)

    monkeypatch.setattr(real_cells, "execute", counted)
    return found


def test_cells_that_differ_in_v_alone_share_one_start_and_one_warm_up(
    tmp_path: Path, starts: list[list[str]]
) -> None:
    join = Arm(name="join shortest", changes=mechanism(policy="join_shortest"))
    ended = list(run_real(tmp_path, cells(deals(0), deals(80), join), QUIET))
    assert starts == [["p-DEALS-V=0-s1", "p-DEALS-V=80-s1"], ["p-join-shortest-s1"]]
    assert [cell.arm.name for cell, _ in ended] == ["DEALS V=0", "DEALS V=80", "join shortest"]
    figures = [figures for _, figures in ended]
    assert {each["tasks"] for each in figures} == {24}
    assert all(float(each["throughput_per_min"]) > 0 for each in figures)  # type: ignore[arg-type]
    assert all(float(each["call_s"]) >= 0.005 for each in figures), "calls really took their time"  # type: ignore[arg-type]
    assert all("bound" not in each for each in figures), "true rates of real engines are not known"


def test_real_and_virtual_time_agree_on_what_does_not_depend_on_time(tmp_path: Path) -> None:
    (cell,) = cells(Arm(name="keep", changes=(*mechanism(policy="keep"), "ingress=1")))
    ((_, real),) = run_real(tmp_path, [cell], QUIET)
    virtual = run_cell(replace(cell, values=dict(cell.values) | {"runtime": "simulation"}))
    for name in (
        "accuracy",
        "shares",
        "heaviest_share",
        "tasks",
        "calls",
        "forwards",
        "warmup_steps",
        "errors",
    ):
        assert real[name] == virtual[name], name


def test_votes_are_counted_alike_in_real_and_virtual_time(tmp_path: Path) -> None:
    (vote,) = (arm for arm in baselines(agent_names(POOL)) if arm.copies == 3)
    (cell,) = cells(vote)
    ((_, real),) = run_real(tmp_path, [cell], QUIET)
    virtual = run_cell(replace(cell, values=dict(cell.values) | {"runtime": "simulation"}))
    assert (real["accuracy"], real["tasks"], real["calls"]) == (virtual["accuracy"], 24, 3.0)
    assert real["heaviest_share"] == 1.0


def test_self_consistency_samples_one_agent_with_seeds_of_their_own(tmp_path: Path) -> None:
    (cell,) = cells(self_consistency(2, "wordsmith"))
    ((_, figures),) = run_real(tmp_path, [cell], QUIET)
    assert figures["calls"] == 5.0
    assert figures["shares"] == [0.0, 0.0, 1.0]
    executor = cell.settings().pool.settings.executor
    assert executor.seed_by_task
    assert executor.temperature > 0


def test_an_interrupted_group_goes_on_without_a_second_test_of_what_ended(
    tmp_path: Path, starts: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gives_up(folder: RunFolder, console: Console, *others: RunFolder) -> None:
        execute(folder, console, *others)
        half_done = others[-1].path / "results.jsonl"  # its warm-up, and a part of its own test
        half_done.write_bytes(b"".join(half_done.read_bytes().splitlines(keepends=True)[:30]))
        raise KeyboardInterrupt

    group = cells(deals(0), deals(20), deals(80))
    with monkeypatch.context() as patch:
        patch.setattr(real_cells, "execute", gives_up)
        with pytest.raises(KeyboardInterrupt):
            list(run_real(tmp_path, group, QUIET))
    first = (tmp_path / "p-DEALS-V=0-s1" / "results.jsonl").read_bytes()
    ended = list(run_real(tmp_path, group, QUIET))
    assert (tmp_path / "p-DEALS-V=0-s1" / "results.jsonl").read_bytes() == first
    assert [figures["tasks"] for _, figures in ended] == [24, 24, 24]
    list(run_real(tmp_path, group, QUIET))
    assert len(starts) == 1, "what has ended is read, not run again"
    for path in tmp_path.iterdir():
        marks = [(mark.phase, mark.what) for mark in RunFolder.open(path).marks()]
        assert marks.count(("warmup", "begin")) == 1, "the warm-up is counted once"


def test_an_arm_that_real_engines_cannot_run_is_refused_before_anything_starts(
    tmp_path: Path, starts: list[list[str]]
) -> None:
    knowing = replace(deals(20), name="known", knows_rates=True)
    with pytest.raises(SettingsError, match=r"arm 'known'.*not known"):
        list(run_real(tmp_path, cells(deals(0), knowing), QUIET))
    broken = Arm(name="broken", changes=("pool.settings.mechanism.polcy=x",))
    with pytest.raises(SettingsError, match="arm 'broken'"):
        list(run_real(tmp_path, cells(deals(0), broken), QUIET))
    assert starts == []


def test_the_measured_ceiling_is_the_slots_over_the_slowdown() -> None:
    def done(arm: str, calls_s: Sequence[float]) -> list[Done]:
        return [
            Done(point="", arm=arm, seed=n, figures={"call_s": call_s}) for n, call_s in enumerate(calls_s)
        ]

    raw = {"agents": [{"slots": 4}, {}]}
    assert measured_ceiling(raw, done(SEQUENTIAL, [1.0, 1.0]), done(CONCURRENT, [2.0, 3.0])) == pytest.approx(
        13 / 2.5
    )


def test_against_agentnet_in_real_time(tmp_path: Path) -> None:
    """Each task alone, and all at once on the same slots: the ratio is found, and its measured ceiling holds."""
    study = STUDIES["deals-throughput"]
    settings = study_settings("deals-throughput", backend="simulated", seeds=1, warmup=3, test=27)
    quick = tuple(
        f"pool.agents.{n}.backend.options.{key}={value}"
        for n in range(3)
        for key, value in {"service_s": 0.02, "service_s_by_purpose": "{}", "distribution": "fixed"}.items()
    )
    wanted = {SEQUENTIAL, CONCURRENT, deals(0).name}
    found = [
        replace(cell, values=dict(cell.values) | {"runtime": "local"}, changes=quick)
        for cell in study.cells(settings)
        if cell.arm.name in wanted
    ]
    done = [
        Done(point=cell.point, arm=cell.arm.name, seed=cell.seed, figures=figures)
        for cell, figures in run_real(tmp_path, found, QUIET)
    ]
    real = settings.model_copy(update={"backend": "vllm", "runtime": "local"})
    ratios, _ = study.report(real, done).grids
    by_arm = {row[0]: dict(zip(ratios.header, row, strict=True)) for row in ratios.rows}
    row = by_arm[deals(0).name]
    assert float(row["times sequential"]) > 3, "27 slots"
    assert float(row["times sequential"]) <= float(row["ceiling"]) * 1.05
    assert row["calls a task"] == "4.00"


def test_splits_that_must_pay_save_steps_and_answers_where_splitting_does_not_help() -> None:
    settings = study_settings("deals-throughput", backend="simulated", seeds=1, warmup=120, test=360)
    cells = [cell for cell in STUDIES["deals-throughput"].cells(settings) if cell.point == SPLITTING]
    figures = {cell.arm.name: run_cell(cell) for cell in cells}
    free, careful = figures[deals(20).name], figures[f"{deals(20).name}, splits must pay"]
    assert float(careful["throughput_per_min"]) > 1.08 * float(free["throughput_per_min"])  # type: ignore[arg-type]
    assert float(careful["accuracy"]) > float(free["accuracy"]) + 0.05  # type: ignore[arg-type]


def test_the_oracle_stands_beside_real_specialists_only() -> None:
    (note,) = oracle_notes(study_settings("deals-vsweep", backend="vllm"))
    assert note.startswith("Pool specialists, oracle assignment")
    assert not oracle_notes(study_settings("deals-vsweep", backend="vllm", dataset={"name": "bbh"}))
    assert not oracle_notes(study_settings("deals-vsweep", backend="simulated"))
