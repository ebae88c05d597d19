"""Which rows settings may be chosen on, and which ones are kept for reporting. Pure."""

import hashlib
from dataclasses import replace
from typing import Literal

from experiments.datasets.rows import DataSet

Half = Literal["all", "tune", "report"]
TUNE_SHARE = 0.4
"""Of each type's rows; the rest is only ever tested on."""


def halved(data_set: DataSet, half: Half) -> DataSet:
    """The rows of one half, by a hash of their ids, so that neither order nor seed moves a row across.

    tune: the rows that settings are chosen on, for both phases. report: warm-up tasks come from those rows, test
    tasks from all others. all: the data set as it is.
    """
    if half == "all":
        return data_set
    tuning: set[str] = set()
    for task_type in data_set.types:
        ids = sorted((row.task_id for row in data_set.rows_of(task_type)), key=_digest)
        tuning.update(ids[: round(len(ids) * TUNE_SHARE)])
    if half == "tune":
        rows = tuple(row for row in data_set.rows if row.task_id in tuning)
        return replace(data_set, rows=rows, label=f"{data_set.label}, tuning half ({len(rows)} rows)")
    rows = tuple(replace(row, part="warm_up" if row.task_id in tuning else "test") for row in data_set.rows)
    return replace(data_set, rows=rows, label=f"{data_set.label}, tested outside of the tuning half")


def _digest(task_id: str) -> bytes:
    return hashlib.blake2b(task_id.encode(), digest_size=8).digest()
