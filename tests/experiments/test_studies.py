"""Studies: what a cell computes, that nothing is run twice, and that reports say what they rest on."""

import io
import json
import os
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from actors.errors import SettingsError
from experiments.__main__ import main
from experiments.datasets.registry import load
from experiments.datasets.rows import Row
from experiments.deals.bound import best_accuracy
from experiments.deals.studies import cells as cells_module
from experiments.deals.studies.arms import (
    CONCURRENT,
    SEQUENTIAL,
    Arm,
    agentnet,
    baselines,
    deals,
    mechanism,
    router,
    single,
)
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.cells import Cell, run_cell
from experiments.deals.studies.command import RATED, run_study, show_study, study_settings
from experiments.deals.studies.pools import agent_names, pool, repeated, routing_by_chance
from experiments.deals.studies.router import ESTIMATED, FRONTIER, gains
from experiments.deals.studies.running import run_cells
from experiments.deals.studies.study import (
    Done,
    StudyFolder,
    StudySettings,
    backend_label,
    point_values,
    write_study_report,
)
from experiments.deals.studies.tables import arm_table, overview, share_plot
from experiments.deals.studies.votes import plurality, voted
from experiments.phases import build_stream
from experiments.stats import wilson_interval
from experiments.trial import Trial
from experiments.verdicts import FILE, recorded_verdicts

POOL = pool("simulated-unlike-x3")
ROW = Row(task_id="t", task_type="x", problem="?", answer="A", answer_format="a letter", grader="exact")


def asked(study: str = "deals-vsweep", **changes: object) -> StudySettings:
    values: dict[str, object] = {
        "backend": "simulated", "seeds": 2, "warmup": 24, "test": 24,
    }  # fmt: skip
    values |= changes
    if study == "deals-topologies" and values["backend"] != "vllm":  # each graph has a size of its own
        del values["warmup"], values["test"]
    return study_settings(study, **values)  # type: ignore[arg-type]


def cell(arm: Arm, seed: int = 1, warmup: int = 240, test: int = 120) -> Cell:
    values = point_values(POOL, asked(warmup=warmup, test=test))
    return Cell(arm=arm, point="", seed=seed, values=values)


def test_every_study_makes_cells_that_can_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADEWINDS_CACHE", str(tmp_path))
    trace = tmp_path / "alibaba" / "lora_request_trace_v2026_GenAI.csv"
    trace.parent.mkdir()
    times = [f"2024-11-15 16:{minute:02}:{second:02}" for minute in range(60) for second in (0, 1, 2, 30)]
    trace.write_text("gmt_create\n" + "\n".join(times) + "\n")
    for study in STUDIES.values():
        for backend in study.defaults:
            capacity = 3.0 if study.name in RATED else None
            settings = asked(study.name, backend=backend, data_dir=tmp_path, capacity_per_s=capacity)
            found = study.cells(settings)
            assert len({each.key for each in found}) == len(found), f"{study.name}: a key twice"
            for each in found[:: max(1, len(found) // 40)]:
                each.settings()


def test_a_cell_of_known_rates_is_below_the_bound_and_near_it() -> None:
    figures = run_cell(cell(replace(router(online=False), knows_rates=True), test=240))
    routed, bound, oracle = (figures[name] for name in ("routed_accuracy", "bound", "oracle"))
    assert isinstance(routed, float)
    assert isinstance(bound, float)
    assert isinstance(oracle, float)
    assert routed <= bound + 1e-9 <= oracle + 2e-9
    assert bound - routed < 0.05
    shares = figures["shares"]
    assert isinstance(shares, list)
    assert figures["heaviest_share"] == max(shares)


def test_a_single_agent_does_all_and_the_best_one_is_below_the_pool() -> None:
    alone = [run_cell(cell(single(position, name))) for position, name in enumerate(agent_names(POOL))]
    assert all(figures["heaviest_share"] == 1.0 for figures in alone)
    together = run_cell(cell(deals(80)))
    assert together["accuracy"] > max(figures["accuracy"] for figures in alone) + 0.1  # type: ignore[operator,type-var]


def test_a_vote_costs_all_copies_and_takes_the_plurality() -> None:
    (vote,) = (arm for arm in baselines(agent_names(POOL)) if arm.copies == 3)
    figures = run_cell(cell(vote))
    assert figures["calls"] == 3.0
    assert figures["heaviest_share"] == 1.0, "every agent works on every task"
    assert "bound" not in figures, "the bound is on the choice of one agent"
    assert plurality(ROW, ["B", "A", "A"]) == 1
    assert plurality(ROW, ["B", "A", "C"]) == 0, "a tie goes to the smallest index"
    assert plurality(ROW, ["", "", "C"]) == 2, "an error has no vote"
    assert plurality(ROW, ["", ""]) == 0


def test_an_error_of_one_copy_is_no_error_of_the_vote() -> None:
    rows = [replace(row, task_id=f"t{n}", answer="A", grader="exact") for n, row in enumerate([ROW] * 2)]
    copies = 3
    trial = Trial(
        task_ids_M=tuple(f"t{n}#{c}" for c in range(copies) for n in range(2)),
        answers_M=("", "", "A", "", "A", ""),
        type_M=np.zeros(6, dtype=int),
        finisher_M=np.array([0, 0, 1, 1, 2, 2]),
        correct_M=np.zeros(6, dtype=bool),
        latency_s_M=np.array([1.0, 2, 3, 4, 5, 6]),
        forwards_M=np.zeros(6, dtype=int),
        calls_M=np.ones(6, dtype=int),
        errors=4, makespan_s=60.0, call_s=1.0, slots=27, busy_s=1.0, warmup_steps=0, agents=3,
    )  # fmt: skip
    vote = voted(trial, rows, copies)
    assert vote.correct_M.tolist() == [True, False]
    assert vote.errors == 1, "one of two tasks has no answer at all"
    assert vote.throughput_per_min == pytest.approx(1.0)
    assert vote.latency_s_M.tolist() == [5.0, 6.0]
    assert vote.calls_M.tolist() == [3, 3]
    assert vote.finisher_M[0] == 1


def test_arms_change_only_what_they_name() -> None:
    settings = cell(Arm(name="x", changes=mechanism(policy="random", quality_weight=7))).settings()
    assert (settings.pool.settings.mechanism.policy, settings.pool.settings.mechanism.quality_weight) == (
        "random",
        7,
    )
    assert settings.pool.agents[0].name == "a1"
    assert cell(deals(5)).settings().seed == 1
    with pytest.raises(SettingsError, match="arm 'broken'"):
        cell(Arm(name="broken", changes=("pool.settings.mechanism.polcy=x",))).settings()


def test_repeated_pools_keep_their_kinds_and_differ_in_name() -> None:
    raw = repeated(POOL, 7)
    assert [agent["name"] for agent in raw["agents"]] == [f"a{n}" for n in range(1, 8)]
    models = Counter(agent["backend"]["model"] for agent in raw["agents"])
    assert sorted(models.values()) == [2, 2, 3]


def test_an_interrupted_study_goes_on_and_runs_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StudyFolder.create(tmp_path, asked())
    study = STUDIES["deals-vsweep"]
    every = study.cells(folder.settings())
    run_cells(folder, every[:5], 1, Console(quiet=True))
    with (folder.path / "cells.jsonl").open("a") as file:
        file.write('{"point": "", "arm": "DEALS V=80", "se')  # a crash in the middle of a line
    ran: list[str] = []
    real = cells_module.run_cell

    def counted(each: Cell) -> cells_module.Figures:
        ran.append(each.key)
        return real(each)

    monkeypatch.setattr("experiments.deals.studies.running.run_cell", counted)
    run_study(StudyFolder.open(folder.path.name, tmp_path), 1, Console(quiet=True))
    assert len(ran) == len(every) - 5
    assert len({(d.point, d.arm, d.seed) for d in folder.done()}) == len(every)


def test_a_damaged_last_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, asked())
    every = STUDIES["deals-vsweep"].cells(folder.settings())
    (folder.path / "cells.jsonl").write_text('{"point": "", "ar')
    run_cells(folder, every[:1], 1, Console(quiet=True))
    assert len(folder.done()) == 1


def test_processes_give_the_same_figures(tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        folder = StudyFolder.create(tmp_path, asked(seeds=1))
        run_cells(folder, STUDIES["deals-vsweep"].cells(folder.settings()), jobs, Console(quiet=True))
        found.append({done.arm: done.figures for done in folder.done()})
    assert found[0] == found[1]


def test_a_study_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["run", "deals-vsweep", "--backend", "simulated", "--runs-dir", str(tmp_path)]
    assert main([*common, "--seeds", "1", "--warmup", "24", "--test", "24", "--jobs", "1"]) == 0
    (path,) = tmp_path.iterdir()
    report = (path / "report" / "report.md").read_text()
    assert "simulated" in report
    assert "times are virtual" in report
    assert "73.57" in report
    assert (path / "report" / "accuracy.png").stat().st_size > 10_000
    assert json.loads((path / "settings.json").read_text())["seeds"] == 1
    capsys.readouterr()
    assert main(["run", "--resume", path.name, "--runs-dir", str(tmp_path), "--jobs", "1"]) == 0
    assert main(["report", path.name, "--runs-dir", str(tmp_path)]) == 0
    assert "DEALS" not in capsys.readouterr().err
    assert main(["run", "deals-pools", "--backend", "simulated", "--runs-dir", str(tmp_path)]) == 1
    assert "deals-pools runs on replay or vllm" in capsys.readouterr().err
    assert main([*common, "--seeds", "0"]) == 1
    assert len(list(tmp_path.iterdir())) == 1, "what cannot be run leaves no folder"


def test_the_sweep_rises_with_v(tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, asked(seeds=4, warmup=240, test=240))
    run_cells(folder, STUDIES["deals-vsweep"].cells(folder.settings()), 1, Console(quiet=True))
    by_arm: dict[str, list[float]] = {}
    for done in folder.done():
        by_arm.setdefault(done.arm, []).append(done.number("accuracy"))
    means = [float(np.mean(by_arm[deals(weight).name])) for weight in (0, 20, 80)]
    assert means == sorted(means)
    assert means[2] > means[0] + 0.1


def test_the_bound_of_a_cell_is_that_of_its_own_stream() -> None:
    figures = run_cell(cell(deals(20), test=60))
    rates = np.array([[0.9, 0.3], [0.3, 0.9]])
    assert best_accuracy(rates, np.array([0.5, 0.5]), 0.5) == pytest.approx(0.9)
    assert isinstance(figures["bound"], float)


def made_up(arm: str, seeds: int, **figures: float | list[float]) -> list[Done]:
    return [Done(point="", arm=arm, seed=seed, figures=dict(figures)) for seed in range(seeds)]


FIGURES: dict[str, float | list[float]] = {
    "accuracy": 0.5, "tasks": 40, "heaviest_share": 0.6, "throughput_per_min": 9.0, "latency_s": 1.0,
    "latency_p95_s": 2.0, "calls": 1.0, "utilisation": 0.5, "shares": [0.6, 0.4],
}  # fmt: skip


def test_a_few_seeds_have_the_score_interval_of_their_tasks_alone() -> None:
    low, high = wilson_interval(40, 80)
    (row,) = arm_table("t", made_up("DEALS V=0", 2, **FIGURES), "DEALS V=0").rows
    assert row[1] == f"50.0 [{100 * low:.1f}, {100 * high:.1f}]"
    assert not any("[" in cell for cell in row[2:])
    (row,) = arm_table("t", made_up("DEALS V=0", 5, **FIGURES), "DEALS V=0").rows
    assert row[1] == "50.0 [50.0, 50.0]", "five seeds that agree"
    assert "[" in row[5], "and every other figure has its own"


def test_the_bound_stands_beside_each_arm_and_its_ends_below_all() -> None:
    known = {"bound": 0.8, "bound_curve": [0.7, 0.85, 0.9], "oracle": 0.9, "routed_accuracy": 0.75}
    done = [*made_up("DEALS V=0", 5, **FIGURES, **known), *made_up("majority vote of 2", 5, **FIGURES)]
    grid = arm_table("t", done, "DEALS V=0")
    column = grid.header.index("bound %")
    assert [(row[0], row[column]) for row in grid.rows] == [
        ("DEALS V=0", "80.0"),
        ("majority vote of 2", "–"),
        ("bound, even shares", "70.0"),
        ("bound, no cap", "90.0"),
    ]
    assert "bound %" not in arm_table("t", made_up("a", 5, **FIGURES), "a").header, (
        "of real engines none is known"
    )
    plot = share_plot("t", "t", done, "")
    assert [line.label for line in plot.lines] == ["linear programme (bound)", "DEALS, V=0 to 0"]
    bound, arm = plot.lines
    assert (list(bound.x_P), list(bound.y_P)) == ([50, 75, 100], pytest.approx([70, 85, 90]))
    assert list(arm.y_P) == pytest.approx([75]), "an expectation beside expectations"


@pytest.mark.parametrize("backend", ["replay", "simulated"])
def test_tables_of_recorded_verdicts_say_once_what_their_intervals_are_over(
    tmp_path: Path, backend: str
) -> None:
    folder = StudyFolder.create(tmp_path, asked(backend=backend))
    for done in made_up("DEALS V=0", 5, **(FIGURES | {"shares": [0.6, 0.3, 0.1]})):
        folder.add(done)
    write_study_report(folder, STUDIES["deals-vsweep"])
    report = (folder.path / "report" / "report.md").read_text()
    assert report.count("over seeds of this question set") == (backend == "replay")


def test_a_few_seeds_have_wide_intervals() -> None:
    done = [replace(each, figures=FIGURES | {"accuracy": 0.5 + each.seed / 100}) for each in made_up("a", 5)]
    better = [replace(each, arm="b", figures=FIGURES | {"accuracy": 0.6}) for each in done]
    table = arm_table("t", [*done, *better], "a")
    # Of 50 ... 54 %: t(4) = 2.776, standard error sqrt(2.5 / 5) = 0.707.
    assert table.rows[0][1] == "52.0 [50.0, 54.0]"
    assert table.rows[1][2] == "+8.0 [+6.0, +10.0]"


def test_no_cap_is_never_printed_below_even_shares() -> None:
    """Seven times 79.65 %: whether that is 79.6 or 79.7 hangs on the last digit of a sum."""
    known = {"bound": 0.7965, "bound_curve": [0.7965 + 1e-12, 0.7965], "oracle": 0.7965}
    table = arm_table("t", made_up("DEALS V=0", 7, **FIGURES, **known), "DEALS V=0")
    even, uncapped = (row[table.header.index("bound %")] for row in table.rows[-2:])
    assert even == uncapped


def test_gains_are_read_off_our_frontier_at_the_share_of_the_other_arm() -> None:
    def cells(arm: str, share: float, accuracy: float, p95_s: float) -> list[Done]:
        changed = {"heaviest_share": share, "accuracy": accuracy, "latency_p95_s": p95_s}
        return [replace(each, point=ESTIMATED) for each in made_up(arm, 5, **(FIGURES | changed))]

    frontier = zip(
        FRONTIER, (0.40, 0.44, 0.48, 0.52), (0.60, 0.64, 0.66, 0.67), (10, 20, 30, 40), strict=True
    )
    ours = [cells(router(weight=weight).name, *figures) for weight, *figures in frontier]
    done = [
        *chain.from_iterable(ours),
        *cells("DEALS V=20", 0.42, 0.60, 21),
        *cells("DEALS V=40", 0.60, 0.7, 9),
    ]
    below, beyond = (dict(zip(gains(done).header, row, strict=True)) for row in gains(done).rows)
    assert (below["above"], beyond["above"]) == ("DEALS V=20", "DEALS V=40")
    assert below["points of accuracy"] == "+2.00 [+2.00, +2.00]", "62 % half way between 60 and 64"
    assert below["p95 s"] == "-6.00 [-6.00, -6.00]"
    assert below["points of true rate"] == "–", "which is not known of these cells"
    assert beyond["points of accuracy"] == "–", "our frontier ends before 60 %"


def test_a_terminal_shows_less_than_the_report() -> None:
    grid = arm_table("t", made_up("a", 5, **FIGURES), "a")
    shown = io.StringIO()
    Console(width=200, file=shown).print(grid.rich())
    text = shown.getvalue()
    assert "50.0 [50.0, 50.0]" in text, "accuracy keeps its interval"
    assert "9 [9, 9]" not in text
    assert "9 [9, 9]" in grid.markdown()


def test_reports_and_plots_name_the_backend() -> None:
    settings = study_settings("deals-vsweep", backend="vllm")
    assert backend_label(settings, {"gpus": []}, short=True) == "vLLM on CPU"
    assert "smollm2-135m-instruct" in backend_label(settings, {"gpus": []})
    assert backend_label(settings, {"gpus": ["H, 80 GB"]}, short=True) == "vLLM on H, 80 GB"
    assert backend_label(asked(backend="replay"), {}, short=True) == "recorded"


@pytest.mark.parametrize("arms_down", [False, True])
def test_an_overview_has_every_arm_at_every_point(arms_down: bool) -> None:
    done = [
        Done(point=point, arm=arm, seed=1, figures=FIGURES | {"accuracy": accuracy})
        for point, arm, accuracy in (("ring", "a", 0.1), ("ring", "b", 0.2), ("star", "a", 0.3))
    ]
    table = overview("t", done, arms_down=arms_down)
    if arms_down:
        assert table.header == ("arm", "ring", "star")
        assert table.rows == (("a", "10.0 / 1.0 s", "30.0 / 1.0 s"), ("b", "20.0 / 1.0 s", "–"))
    else:
        assert table.header == ("", "a", "b")
        assert table.rows == (("ring", "10.0 / 1.0 s", "20.0 / 1.0 s"), ("star", "30.0 / 1.0 s", "–"))


def test_details_are_in_the_report_and_not_on_the_terminal(tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, asked("deals-topologies"))
    for done in made_up("DEALS V=0", 2, **FIGURES):
        folder.add(replace(done, point="ring, 12 agents"))
    shown = io.StringIO()
    show_study(folder, STUDIES["deals-topologies"], Console(width=160, file=shown))
    report = (folder.path / "report" / "report.md").read_text()
    assert "heaviest %" in report
    assert "heaviest %" not in shown.getvalue()
    assert "50.0 / 1.0 s" in shown.getvalue()


def test_a_replayed_model_gives_its_recorded_verdicts_through_every_call_structure() -> None:
    folder = Path(os.environ.get("TRADEWINDS_DATA_DIR", "../shared/data"))
    if not (folder / FILE).is_file():
        pytest.skip(f"recorded MMLU-Pro verdicts are not at {folder}; set TRADEWINDS_DATA_DIR")
    settings = study_settings("deals-vsweep", backend="replay", data_dir=folder, warmup=28, test=70)
    values = point_values(routing_by_chance(pool("recorded-x3")), settings)
    alone = single(1, "mathstral")
    found = {}
    for kind in ("direct", "deliberate", "agentnet"):
        arm = replace(alone, changes=(*alone.changes, f"pool.settings.executor.kind={kind}"))
        if kind == "agentnet":  # it would forward by itself
            arm = replace(arm, changes=(*arm.changes, "pool.settings.executor.max_forwards=0"))
        found[kind] = run_cell(Cell(arm=arm, point="", seed=3, values=values))
    stream = build_stream(
        load("mmlu_pro", data_dir=folder), Cell(arm=alone, point="", seed=3, values=values).settings()
    )
    verdicts = recorded_verdicts(folder)["mathstral-7B"]
    right = [verdicts[task.row.task_id] for task in stream if task.phase == "test"]
    assert [figures["accuracy"] for figures in found.values()] == pytest.approx([np.mean(right)] * 3)
    assert (found["direct"]["calls"], found["deliberate"]["calls"]) == (1.0, 4.0)


def test_agentnet_picks_centrally_and_pays_for_it() -> None:
    figures = {arm.name: run_cell(cell(arm, warmup=120, test=60)) for arm in (*agentnet(), deals(20))}
    slow, fast = (figures[name] for name in (SEQUENTIAL, CONCURRENT))
    assert float(fast["throughput_per_min"]) > 3 * float(slow["throughput_per_min"])  # type: ignore[arg-type]
    assert float(slow["calls"]) >= 4  # type: ignore[arg-type]
    assert figures["DEALS V=20"]["calls"] == 1.0
