"""AgentNet's step (arXiv 2504.00587): the model itself decides whether to forward, split or execute. Pure.

A forward costs one call, with the longest prompt; execute and split cost four, as in `deliberate`. A task always
ends: a reply that cannot be read, or names nobody who may have the task, means execute.
"""

import json
from collections.abc import Generator
from dataclasses import replace

from actors.config import ExecutorSettings
from actors.steps import prompts
from actors.steps.deliberate import carry_out
from actors.steps.log import StepLog
from actors.steps.moves import Move, Reply, Step, StepResult, Surroundings
from actors.task import AgentId, Task


def agentnet(
    task: Task, agent: AgentId, settings: ExecutorSettings, surroundings: Surroundings | None = None
) -> Step:
    log = StepLog(settings, task)
    part, receiver = "", None
    may_split = task.splits < settings.max_splits
    may_forward = task.hops < settings.max_forwards and surroundings is not None and surroundings.neighbours
    if surroundings is not None and (may_split or may_forward):
        receiver, part = yield from _route(
            task, log, surroundings, may_split=may_split, may_forward=bool(may_forward)
        )
    if receiver is not None:
        record = log.record(task, agent, part="", reasoning="", result="")
        return StepResult(record=replace(record, kind="forwarded", demonstration=""), forward_to=receiver)
    return (yield from carry_out(task, agent, part, log))


def _route(
    task: Task, log: StepLog, surroundings: Surroundings, *, may_split: bool, may_forward: bool
) -> Generator[Move, Reply, tuple[AgentId | None, str]]:
    """The router call: (receiver of a forward, part to split off); neither for execute."""
    shown = yield from log.recall(prompts.recall_key(task, ""))
    actions = ["execute"] + ["split"] * may_split + ["forward"] * may_forward
    receivers = [colleague.agent for colleague in surroundings.neighbours] if may_forward else []
    text = yield from log.generate(
        "router",
        prompts.router(task, surroundings, actions, shown),
        json_schema=prompts.router_schema(actions, receivers),
    )
    try:
        chosen = json.loads(text)
        action, part, to = chosen["action"], (chosen.get("part") or "").strip(), chosen.get("agent")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        log.fell_back("unparseable route: execute")
        return None, ""
    if action == "forward" and may_forward:
        if to in receivers and not isinstance(to, bool):
            return AgentId(to), ""
        log.fell_back("forward to nobody who may have it: execute")
    elif action == "split" and may_split:
        if part:
            return None, part
        log.fell_back("split without a part: execute")
    elif action != "execute":
        log.fell_back("unknown action: execute")
    return None, ""
