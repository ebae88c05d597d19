"""The paper's execution step: four model calls (DEALS section 3.3; call structure after AgentNet). Pure.

1. action selection: execute, or split a part off
2. preliminary thought, with demonstrations; a second retrieval is keyed by it
3. execute: reasoning, then 4. answer      split: the part, then 4. the completion check

A task always ends: an action that cannot be read means execute, a check that cannot be read means complete.
"""

import json
from collections.abc import Generator
from dataclasses import replace

from actors.config import ExecutorSettings
from actors.steps import prompts
from actors.steps.log import StepLog
from actors.steps.moves import Move, Reply, Step, StepResult, Surroundings
from actors.task import AgentId, Task
from retrieval.api import Recalled


def deliberate(
    task: Task,
    agent: AgentId,
    settings: ExecutorSettings,
    surroundings: Surroundings | None = None,  # noqa: ARG001 - it never routes
) -> Step:
    log = StepLog(settings, task)
    part = ""
    if task.splits < settings.max_splits:
        part = yield from _select_part(task, log)
    return (yield from carry_out(task, agent, part, log))


def carry_out(task: Task, agent: AgentId, part: str, log: StepLog) -> Generator[Move, Reply, StepResult]:
    """What follows the choice of the action: the whole task, or the part that is split off."""
    shown = yield from log.recall(prompts.recall_key(task, part))
    plan = yield from log.generate("thought", prompts.thought(task, part, shown))
    shown = yield from log.recall(plan)
    if part:
        return (yield from _split(task, agent, part, plan, shown, log))
    reasoning = yield from log.generate("execute", prompts.execute(task, plan, shown))
    answer = yield from log.generate("answer", prompts.answer(task, reasoning, shown), choices=task.choices)
    return StepResult(
        record=log.record(task, agent, part="", reasoning=reasoning, result=answer), answer=answer
    )


def _select_part(task: Task, log: StepLog) -> Generator[Move, Reply, str]:
    """Action selection: the part to split off, or nothing for execute."""
    text = yield from log.generate("action", prompts.action(task), json_schema=prompts.ACTION_SCHEMA)
    try:
        chosen = json.loads(text)
        action, part = chosen["action"], chosen.get("part") or ""
        part = part.strip()
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        log.fell_back("unparseable action: execute")
        return ""
    if action == "split" and part:
        return part
    if action != "execute":
        log.fell_back("split without a part: execute" if action == "split" else "unknown action: execute")
    return ""


def _split(
    task: Task, agent: AgentId, part: str, plan: str, shown: tuple[Recalled, ...], log: StepLog
) -> Generator[Move, Reply, StepResult]:
    result = yield from log.generate("part", prompts.part(task, plan, part, shown))
    done = log.record(task, agent, part=part, reasoning=plan, result=result)
    verdict = yield from log.generate("check", prompts.check(task, done), choices=("complete", "incomplete"))
    incomplete = verdict.lower().startswith("incomplete")
    if not incomplete and not verdict.lower().startswith("complete"):
        log.fell_back("unparseable check: complete")
    # Recorded again so that the check is among the calls; it is no part of the execution time.
    record = log.record(task, agent, part=part, reasoning=plan, result=result)
    if incomplete:
        return StepResult(record=replace(record, kind="split"))
    return StepResult(record=record, answer=result)
