"""How good the specialists are, through the real vLLM engine: `python -m experiments.specialists.evaluate`.

Fresh generated problems of each family, and the real BBH rows of the same family where the data is at hand. Writes
the figures into each model's `training.json`.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rich.console import Console

from actors.config import ExecutorSettings
from actors.steps import prompts
from actors.task import Task, TaskId, TaskType
from experiments.datasets.graders import grade
from experiments.datasets.registry import load
from experiments.datasets.rows import DataSetError, Row
from experiments.grid import Grid, percent
from experiments.specialists.catalogue import FAMILIES_OF_POOL, SPECIALISTS, family
from experiments.stats import Proportion
from serving.api import Backend, BackendSpec, Request, Sampling
from serving.build import build_backend

FOLDER = Path(__file__).parents[2] / "serving" / "specialists"
EVALUATION_STREAM = "evaluation"


def fresh_rows(name: str, count: int, difficulty: int) -> list[Row]:
    """Problems of one family from a stream of their own."""
    rng = Random(f"{EVALUATION_STREAM}/{name}/{difficulty}")
    return [family(name).generate(rng, difficulty, f"{EVALUATION_STREAM}/{name}/{i}") for i in range(count)]


async def accuracy(backend: Backend, rows: Sequence[Row], executor: ExecutorSettings) -> Proportion:
    """How many of the rows it answers rightly in one call each."""
    answers = await asyncio.gather(*(_answer(backend, row, executor) for row in rows))
    right = sum(grade(row, answer) for row, answer in zip(rows, answers, strict=True))
    return Proportion(successes=right, total=len(rows))


async def _answer(backend: Backend, row: Row, executor: ExecutorSettings) -> str:
    task = Task(
        task_id=TaskId(row.task_id),
        task_type=TaskType(row.task_type),
        problem=row.problem,
        answer_format=row.answer_format,
        choices=row.choices,
    )
    sampling = Sampling(max_tokens=executor.max_tokens, temperature=0.0, choices=row.choices)
    completion = await backend.generate(
        Request(request_id=row.task_id, prompt=prompts.direct(task, ()), sampling=sampling)
    )
    return completion.text.strip()


async def evaluate(name: str, sets: dict[str, list[Row]]) -> dict[str, Proportion]:
    """Accuracy of one specialist on each set of rows."""
    backend = build_backend(BackendSpec(kind="vllm_engine", model=str(FOLDER / name), options=ENGINE))
    await backend.start()
    try:
        executor = ExecutorSettings(kind="direct", max_tokens=48)
        return {label: await accuracy(backend, rows, executor) for label, rows in sets.items()}
    finally:
        await backend.close()


ENGINE = {"max_model_len": 512}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.specialists.evaluate", description=__doc__)
    parser.add_argument("names", nargs="*", default=sorted(SPECIALISTS))
    parser.add_argument("--rows", type=int, default=200, help="fresh problems of each family")
    parser.add_argument("--difficulty", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    sets = {name: fresh_rows(name, options.rows, options.difficulty) for name in FAMILIES_OF_POOL}
    try:
        bbh = load("bbh", data_dir=options.data_dir)
        for name in FAMILIES_OF_POOL:
            found = [label for label in bbh.types if label.startswith(name.removesuffix("_two"))]
            if found:
                sets[f"BBH {found[0]}"] = list(bbh.rows_of(found[0]))
    except DataSetError as error:
        Console(stderr=True).print(f"without BBH: {error}", highlight=False)
    rows = []
    for name in options.names:
        found_by = asyncio.run(evaluate(name, sets))
        path = FOLDER / name / "training.json"
        made = json.loads(path.read_text())
        made["accuracy"] = {
            label: {"right": p.successes, "of": p.total, "difficulty": options.difficulty}
            for label, p in found_by.items()
        }
        path.write_text(json.dumps(made, indent=2) + "\n")
        rows.append((name, *(percent(found_by[label]) for label in sets)))
    header = ("vLLM on this machine", *sets)
    Console(width=200).print(
        Grid(title="accuracy of the specialists", header=header, rows=tuple(rows)).rich()
    )


if __name__ == "__main__":
    main()
