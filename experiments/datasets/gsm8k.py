"""GSM8K (Cobbe et al. 2021, arXiv 2110.14168): school arithmetic in words, one task type."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from experiments.datasets.reading import Record, missing, read_json_lines
from experiments.datasets.rows import DataSet, DataSetError, Part, Row

TEST_FILE = "test.jsonl"
TRAIN_FILE = "train.jsonl"

_FINAL = re.compile(r"####\s*(-?[\d,]+(?:\.\d+)?)\s*$")


class _Problem(Record):
    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    answer: str


def load_gsm8k(folder: Path) -> DataSet:
    """The test rows, and the train rows where `<folder>/train.jsonl` is there. Raises DataSetError.

    With both files the published split holds: train rows warm up, test rows test.
    """
    test_path, train_path = folder / TEST_FILE, folder / TRAIN_FILE
    if not test_path.is_file():
        raise missing(test_path, "GSM8K")
    if not train_path.is_file():
        rows = _read(test_path, "test", "any")
        return DataSet(name="gsm8k", label=f"GSM8K (test, {len(rows)} recorded rows)", rows=tuple(rows))
    rows = [*_read(train_path, "train", "warm_up"), *_read(test_path, "test", "test")]
    return DataSet(name="gsm8k", label=f"GSM8K (train and test, {len(rows)} recorded rows)", rows=tuple(rows))


def _read(path: Path, name: str, part: Part) -> list[Row]:
    rows = []
    for number, problem in read_json_lines(path, _Problem):
        final = _FINAL.search(problem.answer)
        if final is None:
            raise DataSetError(
                f"{path}, line {number}: answer: no final number after ####; get the file again"
            )
        rows.append(
            Row(
                task_id=f"gsm8k/{name}/{number}",
                task_type="gsm8k",
                problem=problem.question,
                answer=final.group(1).replace(",", ""),
                answer_format="a number, for example 12",
                grader="number",
                part=part,
            )
        )
    return rows
