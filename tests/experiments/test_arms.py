"""Several V on the same agents."""

from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.arms import arm_grids
from experiments.record import RunFolder

COMMON = ["run", "deals", "--warmup", "60", "--test", "36", "--types", "boolean_expressions", "word_sorting"]


@pytest.mark.parametrize("runtime", ["local", "simulation"])
def test_each_weight_is_a_run_of_its_own_after_one_warm_up(runtime: str, tmp_path: Path) -> None:
    pool = "experiments/deals/pools/simulated-unlike-x3.yaml"
    few = [f"pool.agents.{n}.backend.options.service_s=0.01" for n in range(3)]
    changes = [part for each in few for part in ("--set", each)]
    arguments = [*COMMON, "--pool", pool, "--runtime", runtime, "--runs-dir", str(tmp_path), *changes]
    assert main([*arguments, "--quality-weight", "0", "80"]) == 0
    folders = [RunFolder.open(path) for path in sorted(tmp_path.iterdir())]
    assert len(folders) == 2
    weights = [folder.settings().pool.settings.mechanism.quality_weight for folder in folders]
    assert weights == [0.0, 80.0]
    warm = [
        {r.finished.outcome.task.task_id: r.correct for r in folder.results() if r.phase == "warmup"}
        for folder in folders
    ]
    assert len(warm[0]) == 60
    assert warm[0] == warm[1]
    tests = [[r for r in folder.results() if r.phase == "test"] for folder in folders]
    assert [len(each) for each in tests] == [36, 36]
    right = [sum(r.correct for r in each) for each in tests]
    assert right[1] > right[0] + 5
    table, *per_weight = arm_grids(folders)
    assert [row[0] for row in table.rows] == ["V=0", "V=80"]
    assert len(per_weight) == 2
    assert {row[0] for row in per_weight[0].rows} == {"boolean_expressions", "word_sorting", "all"}
    assert "simulated backend" in table.note
    assert main(["compare", folders[0].run_id, folders[1].run_id, "--runs-dir", str(tmp_path)]) == 0
