"""Several answers to each task, the most frequent of which counts: by different agents, or samples of one. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from actors.task import AgentId
from experiments.datasets.graders import extract, grade
from experiments.datasets.math_answers import equal_in_value
from experiments.datasets.rows import Row
from experiments.record import StreamTask
from experiments.trial import Trial


def with_copies(stream: Sequence[StreamTask], copies: int, at: int | None) -> list[StreamTask]:
    """Each test task so many times: once at each of the first agents, or every time at agent `at`. The warm-up is
    left out: nothing that a vote does rests on it."""
    return [
        replace(
            task,
            row=replace(task.row, task_id=f"{task.row.task_id}#{copy}"),
            ingress=AgentId(copy if at is None else at),
        )
        for task in stream
        if task.phase == "test"
        for copy in range(copies)
    ]


def voted(trial: Trial, rows: Sequence[Row], copies: int) -> Trial:
    """One row a task: the plurality of its copies' answers, ties to the answer of the smallest copy; as late as its
    last copy, as dear as all of them. A copy that ended with an error has no vote. `rows` are the tasks themselves."""
    place = {task_id: m for m, task_id in enumerate(trial.task_ids_M)}
    copies_MC = np.array([[place[f"{row.task_id}#{c}"] for c in range(copies)] for row in rows])
    answers = [[trial.answers_M[m] for m in copies_C] for copies_C in copies_MC]
    chosen = [plurality(row, said) for row, said in zip(rows, answers, strict=True)]
    said_M = tuple(said[c] for said, c in zip(answers, chosen, strict=True))
    winner_M = copies_MC[np.arange(len(rows)), chosen]
    return replace(
        trial,
        task_ids_M=tuple(row.task_id for row in rows),
        answers_M=said_M,
        type_M=trial.type_M[winner_M],
        finisher_M=trial.finisher_M[winner_M],
        correct_M=np.array([bool(said) and grade(row, said) for row, said in zip(rows, said_M, strict=True)]),
        latency_s_M=trial.latency_s_M[copies_MC].max(axis=1),
        forwards_M=trial.forwards_M[copies_MC].sum(axis=1),
        calls_M=trial.calls_M[copies_MC].sum(axis=1),
        errors=sum(not said for said in said_M),
    )


def plurality(row: Row, answers: Sequence[str]) -> int:
    """Position of the first of the most frequent answers, as the grader reads them: "42" and "The answer is 42." are
    one. What it cannot read only counts where there is nothing else, and an error (empty) only where all are."""
    read = [extract(row, answer) for answer in answers]
    votes = [sum(_same(row, mine, other) for other in read) for mine in read]
    return max(range(len(answers)), key=lambda c: (bool(read[c]), bool(answers[c]), votes[c], -c))


def _same(row: Row, one: str, other: str) -> bool:
    if one == other:
        return True
    return row.grader == "math" and bool(one) and bool(other) and equal_in_value(one, other)
