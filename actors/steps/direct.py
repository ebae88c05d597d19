"""One model call for the whole task, with demonstrations. Pure."""

from actors.config import ExecutorSettings
from actors.steps import prompts
from actors.steps.log import StepLog
from actors.steps.moves import Step, StepResult, Surroundings
from actors.task import AgentId, Task


def direct(
    task: Task,
    agent: AgentId,
    settings: ExecutorSettings,
    surroundings: Surroundings | None = None,  # noqa: ARG001 - it never routes
) -> Step:
    log = StepLog(settings, task)
    shown = yield from log.recall(prompts.recall_key(task, ""))
    answer = yield from log.generate("direct", prompts.direct(task, shown), choices=task.choices)
    return StepResult(record=log.record(task, agent, part="", reasoning="", result=answer), answer=answer)
