"""One cell of a study: one arm at one point with one seed, and the figures that come of it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from actors.agent.learning import Learned
from actors.cluster.plan import Plan
from actors.errors import SettingsError
from actors.routing.quality import Counts
from actors.routing.scores import Floats
from actors.task import AgentId
from experiments.datasets.graders import grade
from experiments.datasets.rows import DataSet
from experiments.deals.bound import best_accuracy, oracle_accuracy
from experiments.deals.studies.arms import Arm
from experiments.launch import load_data
from experiments.phases import build_stream
from experiments.pools import plan_of
from experiments.record import StreamTask
from experiments.settings import RunSettings, checked, override
from experiments.trial import Trial, run_trial
from experiments.verdicts import recorded_verdicts

Figures = dict[str, float | list[float] | None]
KNOWN_TRIES = 10_000
"""Verdicts that stand for a rate which is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What to run once."""

    arm: Arm
    point: str
    """Where in the study's grid: a load, a graph, a pool; empty where there is only one."""
    seed: int
    values: Mapping[str, Any]
    """Raw settings of the point, before the arm's changes."""
    changes: tuple[str, ...] = ()
    """Of the whole study, after the arm's."""

    @property
    def key(self) -> str:
        """Unique within a study."""
        return f"{self.point}|{self.arm.name}|{self.seed}"

    def settings(self) -> RunSettings:
        """Checked. Raises SettingsError."""
        values: dict[str, Any] = json.loads(json.dumps(self.values, default=str))
        values["seed"] = self.seed
        for change in (*self.arm.changes, *self.changes):
            override(values, change)
        return checked(values, f"arm {self.arm.name!r}")


def run_cell(cell: Cell) -> Figures:
    """Runs it under virtual time. Raises TradewindsError naming what is wrong with the settings."""
    settings = cell.settings()
    if settings.runtime != "simulation":
        raise SettingsError(f"arm {cell.arm.name!r}: a cell in memory needs runtime simulation")
    data_set = _data(settings.dataset.model_dump_json(), settings.warmup, settings.test, settings.seed)
    if cell.arm.knows_rates:
        settings = settings.model_copy(update={"warmup": 0})
    stream = build_stream(data_set, settings)
    plan = plan_of(settings, [task.row for task in stream], {})
    rates_AT = true_rates(plan, data_set, settings)
    if cell.arm.knows_rates:
        plan = plan_of(settings, [task.row for task in stream], _knowing(plan, rates_AT))
    if cell.arm.copies > 1:
        voting = _with_copies(stream, cell.arm.copies)
        copies = plan_of(settings, [task.row for task in voting], {})
        trial = _voted(run_trial(copies, voting, settings), stream, cell.arm.copies)
    else:
        trial = run_trial(plan, stream, settings)
    return figures_of(trial, rates_AT)


def figures_of(trial: Trial, rates_AT: Floats | None) -> Figures:
    """Everything a table may show of a trial. With true rates also what its routing was worth: the mean true
    rate of (finisher, type), the linear programme's best at the same heaviest share, and the oracle's."""
    figures: Figures = {
        "accuracy": trial.accuracy,
        "shares": trial.shares_A.tolist(),
        "heaviest_share": trial.heaviest_share,
        "throughput_per_min": trial.throughput_per_min,
        "latency_s": float(trial.latency_s_M.mean()),
        "latency_p95_s": float(np.quantile(trial.latency_s_M, 0.95)),
        "utilisation": trial.utilisation,
        "forwards": float(trial.forwards_M.mean()),
        "calls": float(trial.calls_M.mean()),
        "warmup_steps": trial.warmup_steps,
        "errors": trial.errors,
    }
    if rates_AT is not None:
        shares_T = np.bincount(trial.type_M, minlength=rates_AT.shape[1]) / len(trial.type_M)
        figures["routed_accuracy"] = float(rates_AT[trial.finisher_M, trial.type_M].mean())
        figures["bound"] = best_accuracy(rates_AT, shares_T, trial.heaviest_share)
        figures["oracle"] = oracle_accuracy(rates_AT, shares_T)
    return figures


def true_rates(plan: Plan, data_set: DataSet, settings: RunSettings) -> Floats | None:
    """Success rate of each agent at each type, shape (A, T): of replayed models over all rows of the type, of
    simulated ones as set; None where an agent is a real model."""
    rates = []
    for agent in plan.agents:
        options = agent.backend.options
        if agent.backend.kind == "replay":
            verdicts = recorded_verdicts(settings.dataset.data_dir)[agent.backend.model]
            rates.append(_replay_rates(plan.types, data_set, verdicts))
        elif agent.backend.kind == "simulated":
            by_type = options.get("success_rate_by_type", {})
            default = options.get("success_rate", 1.0)
            rates.append([float(by_type.get(name, default)) for name in plan.types])
        else:
            return None
    return np.array(rates)


def _replay_rates(types: Sequence[str], data_set: DataSet, verdicts: Mapping[str, bool]) -> list[float]:
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for row in data_set.rows:
        if row.task_id in verdicts:
            asked[row.task_type] += 1
            right[row.task_type] += verdicts[row.task_id]
    return [right[name] / asked[name] for name in types]


def _knowing(plan: Plan, rates_AT: Floats | None) -> dict[AgentId, Learned]:
    if rates_AT is None:
        raise SettingsError("true success rates are known of replayed and simulated models only")
    known = {}
    for agent in plan.agents:
        right_T = np.rint(rates_AT[agent.agent] * KNOWN_TRIES).astype(int)
        counts = Counts(
            successes_T=tuple(right_T.tolist()), failures_T=tuple((KNOWN_TRIES - right_T).tolist())
        )
        known[agent.agent] = Learned(counts=counts)
    return known


@cache
def _data(dataset: str, warmup: int, test: int, seed: int) -> DataSet:
    from experiments.settings import DatasetSettings

    return load_data(DatasetSettings.model_validate_json(dataset), warmup=warmup, test=test, seed=seed)


# Votes


def _with_copies(stream: Sequence[StreamTask], copies: int) -> list[StreamTask]:
    """Each test task once at each of the first agents."""
    return [
        replace(task, row=replace(task.row, task_id=f"{task.row.task_id}#{agent}"), ingress=AgentId(agent))
        for task in stream
        if task.phase == "test"
        for agent in range(copies)
    ]


def _voted(trial: Trial, stream: Sequence[StreamTask], copies: int) -> Trial:
    """One row a task: the plurality of its copies' answers, ties to the answer of the smallest agent; as late as
    its last copy, as dear as all of them."""
    place = {task_id: m for m, task_id in enumerate(trial.task_ids_M)}
    tasks = [task.row for task in stream if task.phase == "test"]
    rows_MC = np.array([[place[f"{row.task_id}#{c}"] for c in range(copies)] for row in tasks])
    answers = [[trial.answers_M[m] for m in rows_C] for rows_C in rows_MC]
    chosen = [_plurality(said) for said in answers]
    winner_M = rows_MC[np.arange(len(tasks)), chosen]
    return replace(
        trial,
        task_ids_M=tuple(row.task_id for row in tasks),
        answers_M=tuple(said[c] for said, c in zip(answers, chosen, strict=True)),
        type_M=trial.type_M[winner_M],
        finisher_M=trial.finisher_M[winner_M],
        correct_M=np.array(
            [
                bool(said[c]) and grade(row, said[c])
                for row, said, c in zip(tasks, answers, chosen, strict=True)
            ]
        ),
        latency_s_M=trial.latency_s_M[rows_MC].max(axis=1),
        forwards_M=trial.forwards_M[rows_MC].sum(axis=1),
        calls_M=trial.calls_M[rows_MC].sum(axis=1),
    )


def _plurality(answers: Sequence[str]) -> int:
    """Position of the first of the most frequent answers."""
    return max(range(len(answers)), key=lambda c: (answers.count(answers[c]), -c))
