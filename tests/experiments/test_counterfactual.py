"""A recorded run lived again under other policies."""

from pathlib import Path

import pytest
from rich.console import Console

from actors.errors import SettingsError
from experiments.__main__ import main
from experiments.deals.counterfactual import RECORDED, counterfactual, evidence_of
from experiments.launch import execute, new_run
from experiments.record import RunFolder
from experiments.settings import checked, load_pool, override

POOL = Path("experiments/deals/pools/simulated-unlike-x3.yaml")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    values = {
        "experiment": "deals",
        "pool": load_pool(POOL),
        "runtime": "simulation",
        "warmup": 240,
        "test": 120,
    }
    folder = new_run(checked(values, "here"), tmp_path_factory.mktemp("runs"))
    execute(folder, Console(quiet=True))
    return folder


def recorded_run(folder: Path, *changes: str) -> RunFolder:
    values = {
        "experiment": "deals",
        "pool": load_pool(POOL),
        "runtime": "simulation",
        "warmup": 24,
        "test": 48,
    }
    for change in changes:
        override(values, change)
    run = new_run(checked(values, "here"), folder)
    execute(run, Console(quiet=True))
    return run


def first(cell: str) -> float:
    return float(cell.split(" ", maxsplit=1)[0].replace(",", ""))


def test_the_recorded_policy_lives_again_as_it_was_and_others_differ(
    recorded: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.deals.counterfactual.SEEDS", 4)
    (grid,) = counterfactual(recorded, ["pool.settings.mechanism.policy=random"])
    rows = {row[0]: row for row in grid.rows}
    itself, again = rows["the run itself"], rows[RECORDED]
    assert first(again[1]) == pytest.approx(float(itself[1]), abs=2.0)
    assert first(again[2]) < 15, "most tasks end where they ended"
    assert first(again[3]) == pytest.approx(float(itself[3]), rel=0.15)
    assert first(rows["DEALS V=0"][1]) < float(itself[1]) - 10
    assert first(rows["pool.settings.mechanism.policy=random"][1]) < float(itself[1]) - 10


def test_repeats_differ_as_runs_do_and_the_run_is_one_of_them(
    recorded: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.deals.counterfactual.SEEDS", 6)
    (grid,) = counterfactual(recorded, [])
    itself, again = grid.rows[0], grid.rows[1]
    for column in ("accuracy %", "latency s", "tasks/min"):
        position = grid.header.index(column)
        low, high = (float(end) for end in again[position].split(" [")[1].rstrip("]").split(", "))
        assert low < high or column == "accuracy %", "where all tasks end as they did, so does the accuracy"
        assert low <= float(itself[position]) <= high, column
    assert "the run: simulated backend" in grid.note
    assert "every other row is simulated from its recorded verdicts and times" in grid.note


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            ["pool.settings.executor.kind=agentnet", "pool.settings.mechanism.policy=keep"],
            "executor agentnet",
        ),
        (["arrivals.kind=closed"], "arrivals closed"),
    ],
)
def test_what_cannot_be_lived_again_is_refused(tmp_path: Path, changes: list[str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        counterfactual(recorded_run(tmp_path, *changes), [])


def test_other_policies_are_not_given_the_central_pick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.deals.counterfactual.SEEDS", 2)
    run = recorded_run(tmp_path, "ingress=best_ability", "pool.settings.mechanism.policy=keep")
    keep = "pool.settings.mechanism.policy=keep"
    (grid,) = counterfactual(run, [keep])
    again, other = grid.rows[1], grid.rows[2]
    assert (again[0], other[0]) == (RECORDED, keep)
    assert first(other[2]) > first(again[2]) + 20, "without the pick tasks stay where chance lets them arrive"
    assert "not at the central pick" in grid.note


def test_what_the_run_says_is_kept(recorded: RunFolder) -> None:
    evidence = evidence_of(recorded)
    results = recorded.results()
    assert len(evidence.verdicts) == len(results) == 360
    for result in results[:50]:
        outcome = result.finished.outcome
        assert evidence.verdicts[outcome.finisher, outcome.task.task_id] == result.correct
    assert all(0 < rate < 1 for rate in evidence.rates.values())


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    values = {
        "experiment": "deals",
        "pool": load_pool(POOL),
        "runtime": "simulation",
        "warmup": 12,
        "test": 12,
    }
    folder = new_run(checked(values, "here"), tmp_path)
    with pytest.raises(SettingsError, match="--resume"):
        counterfactual(folder, [])


def test_from_the_command_line(recorded: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "deals-counterfactual"]) == 2
    assert "name the run" in capsys.readouterr().out
    assert main(["run", "deals", str(recorded.path)]) == 2
    assert "only deals-counterfactual takes a RUN" in capsys.readouterr().out
