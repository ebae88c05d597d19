"""Small made-up run folders, written through the same calls a run uses."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.cluster.api import Finished
from actors.metrics import Record, Stamped
from actors.task import AgentId, CallRecord, Outcome, ProgressPart, StepRecord, Task, TaskId, TaskType
from experiments.datasets.rows import Row
from experiments.record import Phase, Result, RunFolder, StreamTask
from experiments.settings import RunSettings, checked

START_S = 1_700_000_000.0


class MadeUpRuns:
    """Builds run folders. Times are seconds after START_S."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def settings(self, *, agents: int = 2, kind: str = "vllm_engine", **changes: Any) -> RunSettings:
        values: dict[str, Any] = {
            "experiment": "deals",
            "pool": {
                "name": "made-up",
                "agents": [
                    {"name": f"a{i}", "backend": {"kind": kind, "model": "little-model"}, "slots": 3}
                    for i in range(agents)
                ],
                "encoder": {"kind": "hashing"},
            },
        }
        return checked(values | changes, "made-up settings")

    def task(
        self,
        task_id: str,
        *,
        phase: Phase = "test",
        task_type: str = "sums",
        ingress: int = 0,
        problem: str = "2+2?",
        answer: str = "4",
    ) -> StreamTask:
        row = Row(
            task_id=task_id,
            task_type=task_type,
            problem=problem,
            answer=answer,
            answer_format="a number",
            grader="number",
        )
        return StreamTask(phase=phase, row=row, ingress=AgentId(ingress), arrival_s=0.0)

    def step(
        self,
        agent: int,
        kind: Any = "executed",
        *,
        part: str = "",
        result: str = "4",
        calls: Sequence[CallRecord] = (),
        recalled: tuple[tuple[str, float], ...] = (),
    ) -> StepRecord:
        return StepRecord(
            agent=AgentId(agent),
            kind=kind,
            part=part,
            result=result,
            calls=tuple(calls),
            recalled=recalled,
            duration_s=sum(call.duration_s for call in calls),
        )

    def result(
        self,
        task: StreamTask,
        *,
        correct: bool = True,
        finisher: int = 0,
        at_s: float = 10.0,
        latency_s: float = 1.0,
        forwards: int = 0,
        answer: str | None = "4",
        error: str | None = None,
        steps: Sequence[StepRecord] = (),
    ) -> Result:
        row = task.row
        parts = tuple(
            ProgressPart(agent=step.agent, part=step.part, result=step.result)
            for step in steps
            if step.kind == "split"
        )
        carried = Task(
            task_id=TaskId(row.task_id),
            task_type=TaskType(row.task_type),
            problem=row.problem,
            forwards=forwards,
            steps=tuple(steps),
            progress=parts,
        )
        outcome = Outcome(
            task=carried,
            finisher=AgentId(finisher),
            answer=None if error is not None else answer,
            error=error,
        )
        finished = Finished(outcome=outcome, latency_s=latency_s, finished_wall_s=START_S + at_s)
        return Result(phase=task.phase, correct=correct, expected=row.answer, finished=finished)

    def folder(
        self,
        name: str,
        tasks: Sequence[StreamTask],
        *,
        settings: RunSettings | None = None,
        machine: dict[str, Any] | None = None,
        results: Sequence[Result] = (),
        events: Sequence[tuple[float, Record]] = (),
        marks: Sequence[tuple[Phase, str, float]] = (),
    ) -> RunFolder:
        folder = RunFolder.create(self.root / name, settings or self.settings(), machine or {}, tasks)
        folder.add_results(results)
        folder.add_events([Stamped(wall_s=START_S + at_s, record=record) for at_s, record in events])
        folder.close()
        lines = [
            json.dumps({"phase": phase, "what": what, "wall_s": START_S + at_s})
            for phase, what, at_s in marks
        ]
        (folder.path / "phases.jsonl").write_text("".join(line + "\n" for line in lines))
        return RunFolder.open(folder.path)


@pytest.fixture
def runs(tmp_path: Path) -> MadeUpRuns:
    return MadeUpRuns(tmp_path)
