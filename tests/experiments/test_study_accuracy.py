"""What deals-accuracy says of its votes is what they are."""

import itertools
import os
from pathlib import Path

import pytest

from experiments.datasets.graders import grade
from experiments.datasets.registry import load
from experiments.deals.studies.accuracy import ACCURACY, KIND_VOTES
from experiments.deals.studies.command import study_settings
from experiments.deals.studies.study import Done
from experiments.deals.studies.votes import with_copies
from experiments.launch import load_plan
from experiments.phases import build_stream
from experiments.trial import run_trial
from experiments.verdicts import FILE, recorded_verdicts


def test_recorded_agents_fail_where_their_models_did_and_seldom_alike() -> None:
    folder = Path(os.environ.get("TRADEWINDS_DATA_DIR", "../shared/data"))
    if not (folder / FILE).is_file():
        pytest.skip(f"recorded MMLU-Pro verdicts are not at {folder}; set TRADEWINDS_DATA_DIR")
    settings = study_settings(
        "deals-accuracy", backend="replay", data_dir=folder, seeds=1, warmup=0, test=280
    )
    vote = next(cell for cell in ACCURACY.cells(settings) if cell.arm.copies == 3)
    run = vote.settings()
    tasks = build_stream(load("mmlu_pro", data_dir=folder), run)
    stream = with_copies(tasks, 3, None)
    trial = run_trial(load_plan(run, stream), stream, run)
    said = dict(zip(trial.task_ids_M, trial.answers_M, strict=True))
    recorded = [recorded_verdicts(folder)[agent.backend.model] for agent in run.pool.agents]
    wrong_pairs, alike = 0, 0
    for row in (task.row for task in tasks):
        answers = [said[f"{row.task_id}#{copy}"] for copy in range(3)]
        verdicts = [model[row.task_id] for model in recorded]
        assert [grade(row, answer) for answer in answers] == verdicts
        for one, other in itertools.combinations(range(3), 2):
            wrong_pairs += not (verdicts[one] or verdicts[other])
            alike += not (verdicts[one] or verdicts[other]) and answers[one] == answers[other]
    assert wrong_pairs > 200
    assert alike / wrong_pairs < 0.25, "one of up to nine wrong options, by chance"


FIGURES: dict[str, float | list[float] | None] = {
    "accuracy": 0.5, "tasks": 40, "heaviest_share": 0.6, "throughput_per_min": 9.0, "latency_s": 1.0,
    "latency_p95_s": 2.0, "calls": 1.0, "utilisation": 0.5, "shares": [0.6, 0.4, 0.0],
}  # fmt: skip


@pytest.mark.parametrize("backend", ["replay", "simulated", "vllm"])
def test_the_table_says_how_its_votes_were_made(backend: str) -> None:
    settings = study_settings("deals-accuracy", backend=backend)  # type: ignore[arg-type]
    name = settings.pools[0]["name"]
    done = [Done(point=name, arm=arm, seed=1, figures=FIGURES) for arm in ("DEALS V=0", "majority vote of 3")]
    (table,) = (grid for grid in ACCURACY.report(settings, done).grids if grid.title == f"pool {name}")
    assert [note for note in KIND_VOTES.values() if note in table.note] == [
        note for of, note in KIND_VOTES.items() if of == backend
    ]
