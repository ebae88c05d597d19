"""One cell of a study: one arm at one point with one seed, and the figures that come of it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from actors.agent.learning import Learned
from actors.cluster.plan import Plan
from actors.errors import SettingsError
from actors.routing.quality import Counts
from actors.routing.scores import Floats
from actors.task import AgentId
from experiments.datasets.rows import DataSet
from experiments.deals.bound import best_accuracy, bound_curve, oracle_accuracy
from experiments.deals.studies.arms import Arm
from experiments.deals.studies.votes import voted, with_copies
from experiments.launch import load_data
from experiments.phases import build_stream
from experiments.pools import plan_of
from experiments.settings import RunSettings, checked, override
from experiments.trial import Trial, run_trial
from experiments.verdicts import recorded_verdicts

Figures = dict[str, float | list[float] | None]
KNOWN_TRIES = 10_000
"""Verdicts that stand for a rate which is known."""
CURVE_POINTS = 9
"""Heaviest shares at which the bound is computed, from an even share to all."""
CURVE_AGENTS = 30
"""Of larger pools the curve would cost more than the trial."""


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
    data_set = data_of(settings)
    if cell.arm.knows_rates:
        settings = settings.model_copy(update={"warmup": 0})
    stream = build_stream(data_set, settings)
    plan = plan_of(settings, [task.row for task in stream], {})
    rates_AT = true_rates(plan, data_set, settings)
    if cell.arm.knows_rates:
        plan = plan_of(settings, [task.row for task in stream], _knowing(plan, rates_AT))
    arm = cell.arm
    if arm.copies > 1:
        voting = with_copies(stream, arm.copies, arm.at)
        copies = plan_of(settings, [task.row for task in voting], {})
        rows = [task.row for task in stream if task.phase == "test"]
        return figures_of(voted(run_trial(copies, voting, settings), rows, arm.copies), rates_AT, vote=True)
    return figures_of(run_trial(plan, stream, settings), rates_AT)


def figures_of(trial: Trial, rates_AT: Floats | None, *, vote: bool = False) -> Figures:
    """Everything a table may show of a trial. With true rates also what its routing was worth: the mean true rate of
    (finisher, type), and the linear programme's best at the same heaviest share, from even shares to no cap.
    In a vote some agent works on every task, and no bound on the choice of one agent binds it."""
    figures: Figures = {
        "accuracy": trial.accuracy,
        "shares": trial.shares_A.tolist(),
        "heaviest_share": 1.0 if vote else trial.heaviest_share,
        "tasks": len(trial.task_ids_M),
        "throughput_per_min": trial.throughput_per_min,
        "latency_s": float(trial.latency_s_M.mean()),
        "latency_p95_s": float(np.quantile(trial.latency_s_M, 0.95)),
        "utilisation": trial.utilisation,
        "forwards": float(trial.forwards_M.mean()),
        "calls": float(trial.calls_M.mean()),
        "call_s": trial.call_s,
        "warmup_steps": trial.warmup_steps,
        "errors": trial.errors,
    }
    if rates_AT is not None and not vote:
        shares_T = np.bincount(trial.type_M, minlength=rates_AT.shape[1]) / len(trial.type_M)
        figures["routed_accuracy"] = float(rates_AT[trial.finisher_M, trial.type_M].mean())
        figures["bound"] = best_accuracy(rates_AT, shares_T, trial.heaviest_share)
        if trial.agents <= CURVE_AGENTS:
            shares = np.linspace(1 / trial.agents, 1, CURVE_POINTS)
            figures["bound_curve"] = bound_curve(rates_AT, shares_T, shares.tolist()).tolist()
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


def data_of(settings: RunSettings) -> DataSet:
    """The rows of a cell, read once a process. Raises DataSetError."""
    seed = settings.seed if settings.dataset.name == "families" else 0  # others are the same for all seeds
    return _data(settings.dataset.model_dump_json(), settings.warmup, settings.test, seed)


@lru_cache(maxsize=8)
def _data(dataset: str, warmup: int, test: int, seed: int) -> DataSet:
    from experiments.settings import DatasetSettings

    return load_data(DatasetSettings.model_validate_json(dataset), warmup=warmup, test=test, seed=seed)
