"""A run folder: everything one run leaves behind, written as it happens and read back whole.

runs/<id>/settings.json    the resolved settings
          machine.json     machine, versions, commit
          tasks.jsonl      the whole task stream, before the first task starts
          phases.jsonl     when each phase began and ended
          results.jsonl    one line for each finished task, on disk before its verdict is passed on
          events/*.parquet measurements of the agents
          logs/*.pickle    each agent's log, where the run asked for it
"""

import json
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from actors.agent.shell import AgentSnapshot
from actors.cluster.api import Finished
from actors.errors import SettingsError
from actors.metrics import Record, Stamped
from actors.task import AgentId
from experiments.datasets.rows import Row
from experiments.settings import RunSettings

Phase = Literal["warmup", "test"]
Line = TypeVar("Line")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTask:
    """One task of a run's stream."""

    phase: Phase
    row: Row
    ingress: AgentId
    """Where it arrives."""
    arrival_s: float
    """Seconds after the start of its phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One finished task and its grade."""

    phase: Phase
    correct: bool
    expected: str
    finished: Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMark:
    """A phase began or ended."""

    phase: Phase
    what: Literal["begin", "end"]
    wall_s: float


EVENT_SCHEMA = pa.schema(
    [
        ("wall_s", pa.float64()),
        ("kind", pa.string()),
        ("phase", pa.string()),
        ("agent", pa.int64()),
        ("task_id", pa.string()),
        ("task_type", pa.string()),
        ("body", pa.string()),
    ]
)
"""`body` is the whole record as JSON; the other columns repeat what one filters by."""

_TASK: TypeAdapter[StreamTask] = TypeAdapter(StreamTask)
_RESULT: TypeAdapter[Result] = TypeAdapter(Result)
_MARK: TypeAdapter[PhaseMark] = TypeAdapter(PhaseMark)
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


class RunFolder:
    """One run on disk. Lines are flushed to disk before the call that writes them returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: dict[str, IO[bytes]] = {}
        parts = (path / "events").glob("part-*.parquet")
        self._event_parts = max((int(part.stem.removeprefix("part-")) for part in parts), default=0)

    @property
    def run_id(self) -> str:
        return self.path.name

    # Writing

    @staticmethod
    def create(
        path: Path, settings: RunSettings, machine: dict[str, Any], tasks: Sequence[StreamTask]
    ) -> "RunFolder":
        """A new folder. The task stream is written last: a folder without it never started.

        Raises SettingsError where it cannot be made.
        """
        try:
            path.mkdir(parents=True)
            _write(path / "settings.json", settings.model_dump_json(indent=2).encode())
            _write(path / "machine.json", json.dumps(machine, indent=2).encode())
            _write(path / "tasks.jsonl", b"".join(_TASK.dump_json(task) + b"\n" for task in tasks))
        except OSError as error:
            raise SettingsError(
                f"run folder {path} cannot be made ({error}); name a folder to write to with --runs-dir"
            ) from error
        return RunFolder(path)

    def add_results(self, results: Sequence[Result]) -> None:
        self._append("results.jsonl", [_RESULT.dump_json(result) for result in results])

    def adopt_warmup(self, other: "RunFolder") -> None:
        """Takes over the warm-up of a run on the same agents and the same stream."""
        for mark in other.marks():
            if mark.phase == "warmup":
                self.mark(mark.phase, mark.what, mark.wall_s)
        self.add_results([result for result in other.results() if result.phase == "warmup"])
        self.add_events([stamped for stamped in other.events() if stamped.record.phase == "warmup"])

    def mark(self, phase: Phase, what: Literal["begin", "end"], wall_s: float | None = None) -> None:
        """`wall_s`: where it is not now."""
        mark = PhaseMark(phase=phase, what=what, wall_s=time.time() if wall_s is None else wall_s)
        line = _MARK.dump_json(mark)
        self._append("phases.jsonl", [line])

    def add_events(self, events: Sequence[Stamped]) -> None:
        """One Parquet file for each call; nothing for no events."""
        if not events:
            return
        columns: dict[str, list[Any]] = {name: [] for name in EVENT_SCHEMA.names}
        for stamped in events:
            record = stamped.record
            columns["wall_s"].append(stamped.wall_s)
            columns["kind"].append(type(record).__name__)
            columns["phase"].append(record.phase)
            columns["agent"].append(int(record.agent))
            columns["task_id"].append(getattr(record, "task_id", None))
            columns["task_type"].append(getattr(record, "task_type", None))
            columns["body"].append(_RECORD.dump_json(record).decode())
        self._event_parts += 1
        (self.path / "events").mkdir(exist_ok=True)
        content = pa.BufferOutputStream()
        pq.write_table(pa.table(columns, schema=EVENT_SCHEMA), content)
        _write(
            self.path / "events" / f"part-{self._event_parts:05d}.parquet", content.getvalue().to_pybytes()
        )

    def add_logs(self, snapshots: Sequence[AgentSnapshot]) -> None:
        (self.path / "logs").mkdir(exist_ok=True)
        for snapshot in snapshots:
            _write(self.path / "logs" / f"agent-{snapshot.agent}.pickle", pickle.dumps(snapshot))

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    # Reading: each raises SettingsError naming the file that is missing or damaged, and where

    @staticmethod
    def open(path: Path) -> "RunFolder":
        """An existing folder. Raises SettingsError where it is none."""
        if not (path / "tasks.jsonl").exists():
            raise SettingsError(
                f"{path} is not a run folder (it has no tasks.jsonl); see the ids under {path.parent}"
            )
        return RunFolder(path)

    def settings(self) -> RunSettings:
        content = self._content("settings.json")
        try:
            return RunSettings.model_validate_json(content)
        except ValidationError as error:
            raise SettingsError(
                f"{self.path / 'settings.json'} is damaged or of another version: {_first_problem(error)}"
            ) from error

    def machine(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._content("machine.json"))
        except ValueError as error:
            raise SettingsError(f"{self.path / 'machine.json'} is damaged: {error}") from error
        return content

    def tasks(self) -> list[StreamTask]:
        tasks = list(self._parsed("tasks.jsonl", _TASK))
        if not tasks:
            raise SettingsError(f"{self.path / 'tasks.jsonl'} holds no task; take it from a copy of the run")
        return tasks

    def results(self) -> list[Result]:
        """Every finished task once, in the order in which they finished."""
        results = self._parsed("results.jsonl", _RESULT)
        return list({result.finished.outcome.task.task_id: result for result in results}.values())

    def marks(self) -> list[PhaseMark]:
        return list(self._parsed("phases.jsonl", _MARK))

    def events(self, kind: type[Record] | None = None, task_id: str | None = None) -> list[Stamped]:
        """Measurements in time order, of one record type and one task if asked."""
        paths = sorted((self.path / "events").glob("*.parquet"))
        if not paths:
            return []
        table = pa.concat_tables([_read_events(path) for path in paths])
        rows = table.sort_by("wall_s").to_pylist()
        names = {record.__name__: TypeAdapter(record) for record in Record.__args__}
        return [
            Stamped(wall_s=row["wall_s"], record=names[row["kind"]].validate_json(row["body"]))
            for row in rows
            if (kind is None or row["kind"] == kind.__name__)
            and (task_id is None or row["task_id"] == task_id)
        ]

    def logs(self) -> list[AgentSnapshot]:
        """What `add_logs` wrote, by agent. Only for folders of one's own: unpickling runs what it reads."""
        paths = sorted((self.path / "logs").glob("agent-*.pickle"))
        snapshots: list[AgentSnapshot] = [pickle.loads(path.read_bytes()) for path in paths]
        return sorted(snapshots, key=lambda snapshot: snapshot.agent)

    def _content(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise SettingsError(f"run {self.run_id} cannot be read: {error}") from error

    def _parsed(self, name: str, kind: TypeAdapter[Line]) -> Iterator[Line]:
        for number, line in enumerate(self._lines(name), start=1):
            try:
                yield kind.validate_json(line)
            except ValidationError as error:
                raise SettingsError(
                    f"{self.path / name}, line {number} is damaged or of another version: "
                    f"{_first_problem(error)}; take the file from a copy of the run, or remove the line"
                ) from error

    def _lines(self, name: str) -> Iterator[bytes]:
        """Whole lines; a torn last one (the machine died in the middle of a write) is no line."""
        path = self.path / name
        if not path.exists():
            return
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line

    def _append(self, name: str, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        file = self._open.get(name)
        if file is None:
            file = self._open[name] = _opened_for_append(self.path / name)
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


def _read_events(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, schema=EVENT_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise SettingsError(
            f"{path} is damaged ({error}); remove it: measurements are lost with it, results are not"
        ) from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def _opened_for_append(path: Path) -> IO[bytes]:
    """The file, cut back to its last whole line, so that a torn one does not swallow the next."""
    file = path.open("ab+")
    file.seek(0)
    content = file.read()
    file.truncate(content.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
    return file


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
