"""MMLU-Pro (Wang et al. 2024, arXiv 2406.01574): multiple choice with up to ten options; category = task type."""

from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

from pydantic import Field, StringConstraints

from experiments.datasets.reading import Record, missing, read_json_lines
from experiments.datasets.rows import DataSet, DataSetError, Row

FILE = "questions.jsonl"


class _Question(Record):
    question_id: int
    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    options: Annotated[list[str], Field(min_length=2, max_length=10)]
    answer: str
    category: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def load_mmlu_pro(folder: Path) -> DataSet:
    """All questions of `<folder>/questions.jsonl`. Raises DataSetError.

    The letter is the key, as in the official evaluation; the recorded file's index disagrees with it once.
    """
    path = folder / FILE
    if not path.is_file():
        raise missing(path, "MMLU-Pro")
    rows = tuple(
        _row(question, f"{path}, line {number}") for number, question in read_json_lines(path, _Question)
    )
    categories = len({row.task_type for row in rows})
    return DataSet(
        name="mmlu_pro", label=f"MMLU-Pro ({categories} categories, {len(rows)} recorded rows)", rows=rows
    )


def _row(question: _Question, where: str) -> Row:
    choices = tuple(ascii_uppercase[: len(question.options)])
    if question.answer not in choices:
        raise DataSetError(
            f"{where}: answer: {question.answer!r} is none of the {len(choices)} options; get the file again"
        )
    options = "\n".join(f"({letter}) {text}" for letter, text in zip(choices, question.options, strict=True))
    return Row(
        task_id=f"mmlu_pro/{question.question_id}",
        task_type=question.category,
        problem=f"{question.question}\nOptions:\n{options}",
        answer=question.answer,
        answer_format="the letter of one option, for example A",
        choices=choices,
        grader="letter",
    )
