"""Which questions public models answered rightly: verdicts that somebody recorded, for `replay` agents."""

import csv
from functools import cache
from pathlib import Path

from experiments.datasets.reading import missing, read_text
from experiments.datasets.registry import default_cache_dir, default_data_dir
from experiments.datasets.rows import DataSetError

FILE = Path("mmlu_pro") / "official_model_correctness.csv"
"""MMLU-Pro's published evaluation outputs, reduced to question_id, category and one column of 1 or 0 a model."""


def recorded_verdicts(data_dir: Path | None) -> dict[str, dict[str, bool]]:
    """Model name -> task id -> right or wrong. Raises DataSetError, naming the file and the remedy."""
    folder = data_dir or default_data_dir() or default_cache_dir()
    return _read(folder / FILE)


@cache
def _read(path: Path) -> dict[str, dict[str, bool]]:
    if not path.is_file():
        raise missing(path, "recorded verdicts on MMLU-Pro")
    lines = list(csv.reader(read_text(path).splitlines()))
    models = lines[0][2:]
    verdicts: dict[str, dict[str, bool]] = {model: {} for model in models}
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(models) + 2 or set(line[2:]) - {"0", "1", ""}:
            raise DataSetError(
                f"{path}, line {number}: not one 1, 0 or nothing for each model; get the file again"
            )
        for model, verdict in zip(models, line[2:], strict=True):
            if verdict:  # a few questions were never answered by some model
                verdicts[model][f"mmlu_pro/{line[0]}"] = verdict == "1"
    return verdicts
