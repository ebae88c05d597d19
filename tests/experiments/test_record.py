"""A run folder that was damaged or cannot be made: a clear error, and nothing overwritten that is there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.errors import SettingsError
from actors.metrics import CountRecord, Stamped
from actors.task import AgentId
from experiments.record import RunFolder
from experiments.summary import summarise


@pytest.fixture
def folder(runs: Any) -> RunFolder:
    tasks = [runs.task(f"t{i}") for i in range(3)]
    results = [runs.result(task, at_s=1.0) for task in tasks]
    record = CountRecord(agent=AgentId(0), phase="test", what="something")
    made: RunFolder = runs.folder("run", tasks, results=results, events=[(1.0, record)])
    return made


def _replace_line(name: str, position: int, text: str) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        lines = (path / name).read_text().splitlines()
        lines[position] = text
        (path / name).write_text("".join(line + "\n" for line in lines))

    return damage


def _from_the_future(path: Path) -> None:
    file = path / "settings.json"
    file.write_text(file.read_text().replace("{", '{"tomorrow": 1,', 1))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_from_the_future, r"settings\.json.*tomorrow"),
        (lambda path: (path / "settings.json").unlink(), r"settings\.json"),
        (lambda path: (path / "machine.json").unlink(), r"machine\.json"),
        (lambda path: (path / "machine.json").write_text("{"), r"machine\.json"),
        (lambda path: (path / "tasks.jsonl").write_text(""), r"tasks\.jsonl holds no task"),
        (_replace_line("tasks.jsonl", 2, '{"a": 1}'), r"tasks\.jsonl, line 3"),
        (_replace_line("results.jsonl", 1, "garbage"), r"results\.jsonl, line 2"),
        (lambda path: (path / "phases.jsonl").write_text("{}\n"), r"phases\.jsonl, line 1"),
        (lambda path: (path / "events" / "part-00001.parquet").write_bytes(b""), "part-00001.*remove it"),
    ],
)
def test_a_missing_or_damaged_file_is_named(
    folder: RunFolder, damage: Callable[[Path], object], named: str
) -> None:
    summarise(folder)
    damage(folder.path)
    with pytest.raises(SettingsError, match=named):
        summarise(RunFolder.open(folder.path))


def test_measurements_do_not_overwrite_others_after_a_damaged_part_was_removed(folder: RunFolder) -> None:
    def noted(wall_s: float) -> Stamped:
        return Stamped(wall_s=wall_s, record=CountRecord(agent=AgentId(0), phase="test", what="later"))

    folder.add_events([noted(2.0)])
    (folder.path / "events" / "part-00001.parquet").unlink()
    RunFolder.open(folder.path).add_events([noted(3.0)])
    assert [stamped.wall_s for stamped in folder.events()] == [2.0, 3.0]


def test_a_folder_that_lost_its_empty_events_folder_takes_measurements(runs: Any) -> None:
    folder = runs.folder("run", [runs.task("t")])
    for path in (folder.path / "events").glob("*"):
        path.unlink()
    if (folder.path / "events").exists():
        (folder.path / "events").rmdir()
    record = CountRecord(agent=AgentId(0), phase="test", what="something")
    folder.add_events([Stamped(wall_s=1.0, record=record)])
    assert len(folder.events()) == 1


def test_a_place_that_cannot_be_written_to_is_named(runs: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"file.*--runs-dir"):
        RunFolder.create(tmp_path / "file" / "run", runs.settings(), {}, [runs.task("t")])
