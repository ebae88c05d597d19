"""MATH (Hendrycks et al. 2021, arXiv 2103.03874): competition problems; subject = task type.

The problems are under a copyright claim, so none come with the project: they are read from a folder of the
user's, or fetched from the hub by the user.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field, StringConstraints

from experiments.datasets.graders import boxed
from experiments.datasets.reading import Record, checked, missing, read_json, read_json_lines
from experiments.datasets.rows import DataSet, DataSetError, Part, Row


class _Problem(Record):
    problem: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    subject: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1),
        Field(validation_alias=AliasChoices("type", "subject")),
    ]
    answer: str | None = None
    solution: str | None = None


def load_math(folder: Path) -> DataSet:
    """All problems in the JSON (one a file) and JSONL files under the folder, at any depth.

    Files under a folder (or of the name) `train` warm up and those under `test` test, where there are both.
    Raises DataSetError.
    """
    paths = sorted(
        path for path in folder.rglob("*") if path.suffix in {".json", ".jsonl"} and path.is_file()
    )
    if not paths:
        raise missing(folder, "MATH (a folder of JSON or JSONL files)")
    names = {path: _published_part(path.relative_to(folder)) for path in paths}
    published = {"warm_up", "test"} <= set(names.values())
    rows = tuple(
        row
        for path in paths
        for row in _rows(path, path.relative_to(folder), names[path] if published else "any")
    )
    subjects = len({row.task_type for row in rows})
    return DataSet(
        name="math", label=f"MATH ({subjects} subjects, {len(rows)} rows of the user's)", rows=rows
    )


def _published_part(path: Path) -> Part:
    names = {*path.parts[:-1], path.stem}
    if "train" in names:
        return "warm_up"
    return "test" if "test" in names else "any"


def _rows(path: Path, relative: Path, part: Part) -> Iterator[Row]:
    name = relative.with_suffix("").as_posix()
    if path.suffix == ".json":
        yield _row(checked(read_json(path), _Problem, str(path)), f"math/{name}", str(path), part)
        return
    for number, problem in read_json_lines(path, _Problem):
        yield _row(problem, f"math/{name}/{number}", f"{path}, line {number}", part)


def _row(problem: _Problem, task_id: str, where: str, part: Part) -> Row:
    answer = problem.answer or boxed(problem.solution or "")
    if not answer or not answer.strip():
        raise DataSetError(
            f"{where}: neither an answer nor a boxed expression in the solution; get the file again"
        )
    return Row(
        task_id=task_id,
        task_type=re.sub(r"[^a-z]+", "_", problem.subject.lower().replace("&", "and")).strip("_"),
        problem=problem.problem,
        answer=answer.strip(),
        answer_format="an exact mathematical expression in \\boxed{}",
        grader="math",
        part=part,
    )
