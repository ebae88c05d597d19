"""BIG-Bench Hard (Suzgun et al. 2022, arXiv 2210.09261): 27 tasks, each a task type."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from experiments.datasets.reading import Record, checked, missing, read_json
from experiments.datasets.rows import DataSet, DataSetError, Part, Row

TASKS = (
    "boolean_expressions",
    "causal_judgement",
    "date_understanding",
    "disambiguation_qa",
    "dyck_languages",
    "formal_fallacies",
    "geometric_shapes",
    "hyperbaton",
    "logical_deduction_five_objects",
    "logical_deduction_seven_objects",
    "logical_deduction_three_objects",
    "movie_recommendation",
    "multistep_arithmetic_two",
    "navigate",
    "object_counting",
    "penguins_in_a_table",
    "reasoning_about_colored_objects",
    "ruin_names",
    "salient_translation_error_detection",
    "snarks",
    "sports_understanding",
    "temporal_sequences",
    "tracking_shuffled_objects_five_objects",
    "tracking_shuffled_objects_seven_objects",
    "tracking_shuffled_objects_three_objects",
    "web_of_lies",
    "word_sorting",
)
SPLIT_FILE = "agentnet_split_indices.json"

_CLOSED = (("True", "False"), ("Yes", "No"), ("yes", "no"), ("valid", "invalid"))
_FREE_FORMATS = {
    "dyck_languages": "the missing closing brackets in order, separated by single spaces",
    "multistep_arithmetic_two": "a whole number, for example -12",
    "object_counting": "a whole number, for example 12",
    "word_sorting": "the words in order, separated by single spaces",
}
_OPTION_LINE = re.compile(r"^\(([A-Z])\)", re.MULTILINE)


class _Example(Record):
    input: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    target: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _TaskFile(Record):
    examples: list[object]


class _SplitFile(Record):
    splits: dict[str, dict[str, list[int]]]


def load_bbh(folder: Path, agentnet_split: bool = False) -> DataSet:
    """All 27 tasks from `<folder>/<task>.json`.

    With `agentnet_split`, only the rows that AgentNet (arXiv 2504.00587) uses, each marked for its phase, as
    listed in `<folder>/agentnet_split_indices.json`. Raises DataSetError.
    """
    if not agentnet_split:
        rows = tuple(row for task in TASKS for row in _read_task(folder, task))
        return DataSet(name="bbh", label=f"BBH ({len(TASKS)} tasks, {len(rows)} recorded rows)", rows=rows)
    parts = _read_parts(folder)
    tasks = [task for task in TASKS if any(task == marked for marked, _ in parts)]
    rows = tuple(
        row
        for task in tasks
        for index, row in enumerate(_read_task(folder, task, parts))
        if (task, index) in parts
    )
    if len(rows) != len(parts):
        raise DataSetError(f"{folder / SPLIT_FILE} names rows that the files of the tasks do not have")
    return DataSet(name="bbh", label=f"BBH (AgentNet's {len(rows)} rows of {len(tasks)} tasks)", rows=rows)


def _read_task(folder: Path, task: str, parts: dict[tuple[str, int], Part] | None = None) -> list[Row]:
    path = folder / f"{task}.json"
    if not path.is_file():
        raise missing(path, f"BBH task {task!r}")
    examples = checked(read_json(path), _TaskFile, str(path)).examples
    if not examples:
        raise DataSetError(f"{path} holds no rows; get the file again")
    return [
        _row(
            task,
            index,
            checked(example, _Example, f"{path}, row {index}"),
            (parts or {}).get((task, index), "any"),
        )
        for index, example in enumerate(examples)
    ]


def _row(task: str, index: int, example: _Example, part: Part) -> Row:
    choices = _choices(example)
    if choices and choices[0].startswith("("):
        answer_format = "one option letter in brackets, for example (A)"
    elif choices:
        answer_format = " or ".join(choices)
    else:
        answer_format = _FREE_FORMATS.get(task, "a short text")
    return Row(
        task_id=f"bbh/{task}/{index}",
        task_type=task,
        problem=example.input,
        answer=example.target,
        answer_format=answer_format,
        choices=choices,
        grader="text",
        part=part,
    )


def _choices(example: _Example) -> tuple[str, ...]:
    """The closed set the answer is from; empty where it is free text.

    Three recorded rows list options and yet have a text as their answer; they count as free text, or a backend
    that is held to the options could never answer them.
    """
    options = tuple(f"({letter})" for letter in dict.fromkeys(_OPTION_LINE.findall(example.input)))
    return next((closed for closed in (options, *_CLOSED) if example.target in closed), ())


def _read_parts(folder: Path) -> dict[tuple[str, int], Part]:
    path = folder / SPLIT_FILE
    if not path.is_file():
        raise DataSetError(
            f"the list of AgentNet's rows was looked for at {path} and is not there; "
            "put it there, or run without AgentNet's split"
        )
    splits = checked(read_json(path), _SplitFile, str(path)).splits
    parts: dict[tuple[str, int], Part] = {}
    names: tuple[tuple[str, Part], ...] = (("train", "warm_up"), ("test", "test"))
    for name, part in names:
        if name not in splits:
            raise DataSetError(f"{path} has no split {name!r}; get the file again")
        for task, indices in splits[name].items():
            for index in indices:
                if parts.setdefault((task, index), part) != part:
                    raise DataSetError(f"{path} puts row {index} of {task} into both splits")
    return parts
