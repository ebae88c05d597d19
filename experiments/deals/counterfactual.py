"""What a recorded run would have been under another policy: `python -m experiments run deals-counterfactual RUN`.

The run's stream is lived again under virtual time. Where an agent answered a task in the run, its verdict is the
recorded one; where it did not, it is drawn at the agent's rate of the type in this run. Step times are drawn anew for
each repeat, with each agent's recorded mean and spread. The first row lives the recorded policy again: how far it is
from the run itself says how far the other rows may be believed. A task's whole step is one call there: what policies
change is where tasks go.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.errors import SettingsError
from actors.metrics import ExecutionRecord
from experiments.deals.studies.arms import Arm, deals, mechanism, router
from experiments.grid import Grid
from experiments.launch import load_plan
from experiments.record import Result, RunFolder
from experiments.settings import RunSettings, checked, override
from experiments.stats import repeat_interval
from experiments.summary import summarise
from experiments.trial import Trial, run_trial

SEEDS = 20
RECORDED = "the recorded policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run says of its agents."""

    verdicts: Mapping[tuple[int, str], bool]
    """(agent, task id) -> right, where the agent finished the task."""
    rates: Mapping[tuple[int, str], float]
    """(agent, type) -> share of right answers with Laplace's prior."""
    step_s: Mapping[int, tuple[float, float]]
    """Agent -> mean and coefficient of variation of its step times."""


def evidence_of(folder: RunFolder) -> Evidence:
    """Raises SettingsError for a run without a finished task or without measurements."""
    results = [result for result in folder.results() if result.finished.outcome.answer is not None]
    durations_s: dict[int, list[float]] = defaultdict(list)
    for stamped in folder.events(ExecutionRecord):
        assert isinstance(stamped.record, ExecutionRecord)
        durations_s[stamped.record.agent].append(stamped.record.duration_s)
    if not results or not durations_s:
        raise SettingsError(
            f"run {folder.run_id} has no finished task to learn from; finish it with --resume first"
        )
    tally: dict[tuple[int, str], list[bool]] = defaultdict(list)
    for result in results:
        outcome = result.finished.outcome
        tally[outcome.finisher, outcome.task.task_type].append(result.correct)
    return Evidence(
        verdicts={
            (result.finished.outcome.finisher, result.finished.outcome.task.task_id): result.correct
            for result in results
        },
        rates={pair: (sum(found) + 1) / (len(found) + 2) for pair, found in tally.items()},
        step_s={agent: _mean_and_spread(values) for agent, values in durations_s.items()},
    )


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    mean = float(np.mean(values))
    return mean, float(np.std(values)) / mean if mean > 0 else 0.0


def counterfactual(folder: RunFolder, changes: Sequence[str]) -> list[Grid]:
    """The recorded run, its policy lived again, and the other policies; `changes` (as `--set` takes them) add one of
    your own. Raises SettingsError for a run whose policy cannot be lived again, or that is not finished."""
    _check(folder)
    evidence = evidence_of(folder)
    arms = [Arm(name=RECORDED), deals(0), deals(80), router(online=False)]
    arms += [Arm(name="join shortest queue", changes=mechanism(policy="join_shortest"))]
    if changes:
        arms.insert(1, Arm(name=", ".join(changes), changes=tuple(changes)))
    actual: dict[str, Result] = {
        result.finished.outcome.task.task_id: result for result in folder.results() if result.phase == "test"
    }
    rows = [_actual_row(folder, list(actual.values()))]
    for arm in arms:
        trials = [_trial(folder, evidence, arm, seed) for seed in range(1, SEEDS + 1)]
        rows.append(_row(arm.name, trials, actual))
    names = [agent.name for agent in folder.settings().pool.agents]
    header = (
        "policy",
        "accuracy %",
        "answered by another agent %",
        "latency s",
        "tasks/min",
        *(f"{n} %" for n in names),
    )
    return [
        Grid(
            title=f"what would have changed: run {folder.run_id}",
            header=header,
            rows=tuple(rows),
            note=f"the run: {summarise(folder).backend_label}; every other row is simulated from its recorded verdicts "
            f"and times, mean of {SEEDS} repeats [where 95 % of repeats fall]" + _reset(folder),
        )
    ]


def _check(folder: RunFolder) -> None:
    settings = folder.settings()
    if settings.pool.settings.executor.kind == "agentnet":
        raise SettingsError(
            f"run {folder.run_id}: its models chose the receivers (executor agentnet), which cannot be asked again for "
            "another course; take a run of executor direct or deliberate"
        )
    if settings.arrivals.kind == "closed":
        raise SettingsError(
            f"run {folder.run_id}: each task entered when another one ended (arrivals closed), so that another policy "
            "would have had other arrivals; take a run of arrivals all_at_once, poisson or trace"
        )


def _reset(folder: RunFolder) -> str:
    if folder.settings().ingress != "best_ability":
        return ""
    return "; other policies get each task where chance let it arrive, not at the central pick"


def _trial(folder: RunFolder, evidence: Evidence, arm: Arm, seed: int) -> Trial:
    settings = _settings(folder, evidence, arm, seed)
    stream = folder.tasks()
    return run_trial(load_plan(settings, stream), stream, settings)


def _settings(folder: RunFolder, evidence: Evidence, arm: Arm, seed: int) -> RunSettings:
    values: dict[str, Any] = folder.settings().model_dump(mode="json")
    values["runtime"] = "simulation"
    values["pool"]["encoder"] = None
    values["pool"]["settings"]["executor"]["kind"] = "direct"
    values["seed"] = seed
    if (
        arm.name != RECORDED and values["ingress"] == "best_ability"
    ):  # the central pick is a policy of its own
        values["ingress"] = "dirichlet"
    rng = np.random.default_rng(seed)
    overall = float(np.mean(list(evidence.rates.values())))
    fallback_s = float(np.mean([mean for mean, _ in evidence.step_s.values()]))
    for position, agent in enumerate(values["pool"]["agents"]):
        mean_s, spread = evidence.step_s.get(position, (fallback_s, 0.5))
        verdicts = {}
        for task in folder.tasks():
            drawn = bool(rng.random() < evidence.rates.get((position, task.row.task_type), overall))
            verdicts[task.row.task_id] = evidence.verdicts.get((position, task.row.task_id), drawn)
        options = {
            "seed": seed,
            "service_s": mean_s,
            "distribution": "lognormal",
            "service_cv": spread,
            "verdicts": verdicts,
        }
        agent["backend"] = {"kind": "replay", "model": agent["name"], "options": options}
    for change in arm.changes:
        override(values, change)
    return checked(values, f"counterfactual {arm.name!r}")


def _actual_row(folder: RunFolder, results: Sequence[Result]) -> tuple[str, ...]:
    finishers = np.array([result.finished.outcome.finisher for result in results])
    agents = len(folder.settings().pool.agents)
    shares = 100 * np.bincount(finishers, minlength=agents) / len(finishers)
    walls = [mark.wall_s for mark in folder.marks() if mark.phase == "test"]
    minutes = (max(walls) - min(walls)) / 60 if len(walls) > 1 else float("nan")
    return (
        "the run itself",
        f"{100 * np.mean([result.correct for result in results]):.1f}",
        "",
        f"{np.mean([result.finished.latency_s for result in results]):.2f}",
        f"{len(results) / minutes:.0f}",
        *(f"{share:.0f}" for share in shares),
    )


def _row(name: str, trials: Sequence[Trial], actual: Mapping[str, Result]) -> tuple[str, ...]:
    def said(values: Sequence[float], digits: int = 1, most: float = math.inf) -> str:
        found = repeat_interval(values)
        low, high = max(found.low, 0.0), min(found.high, most)
        return f"{found.value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"

    elsewhere = [
        100
        * np.mean(
            [
                actual[task_id].finished.outcome.finisher != finisher
                for task_id, finisher in zip(trial.task_ids_M, trial.finisher_M.tolist(), strict=True)
                if task_id in actual
            ]
        )
        for trial in trials
    ]
    shares_SA = np.array([trial.shares_A for trial in trials])
    return (
        name,
        said([100 * trial.accuracy for trial in trials], most=100),
        said([float(value) for value in elsewhere], 0, most=100),
        said([float(trial.latency_s_M.mean()) for trial in trials], 2),
        said([trial.throughput_per_min for trial in trials], 0),
        *(f"{100 * share:.0f}" for share in shares_SA.mean(axis=0)),
    )
