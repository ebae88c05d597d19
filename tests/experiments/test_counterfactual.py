"""A recorded run lived again under other policies."""

from pathlib import Path

import pytest
from rich.console import Console

from actors.errors import SettingsError
from experiments.__main__ import main
from experiments.deals.counterfactual import RECORDED, counterfactual, evidence_of
from experiments.launch import execute, new_run
from experiments.record import RunFolder
from experiments.settings import checked, load_pool

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
