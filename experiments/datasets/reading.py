"""Reads the files of data sets. Every record is checked; an error names the file and the row."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.datasets.rows import DataSetError


class Record(BaseModel):
    """A record of somebody else's file: what it holds beyond our fields is left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)


RecordT = TypeVar("RecordT", bound=Record)


def read_json(path: Path) -> Any:
    """One JSON document. Raises DataSetError."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataSetError(
            f"{path}, line {error.lineno}: not JSON ({error.msg}); get the file again"
        ) from error


def read_json_lines(path: Path, kind: type[RecordT]) -> list[tuple[int, RecordT]]:
    """(line number, record) of every line that is not empty. Raises DataSetError for a line that is damaged."""
    found = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataSetError(f"{where}: not JSON ({error.msg}); get the file again") from error
        found.append((number, checked(value, kind, where)))
    if not found:
        raise DataSetError(f"{path} holds no rows; get the file again")
    return found


def checked(value: object, kind: type[RecordT], where: str) -> RecordT:
    """The value as a record. Raises DataSetError that names the place and the field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "record"
        raise DataSetError(f"{where}: {field}: {first['msg']}") from error


def read_text(path: Path) -> str:
    """The text of a file. Raises DataSetError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataSetError(f"{path} cannot be read: {error}") from error


def missing(path: Path, what: str) -> DataSetError:
    """The error for a file that is not there, with the remedies."""
    return DataSetError(
        f"{what} was looked for at {path} and is not there; "
        "name the folder that holds it with --data-dir, or fetch it with --download"
    )
