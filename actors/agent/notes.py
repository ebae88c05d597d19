"""Records of what an agent did, taken from the task it did it to. Pure."""

from actors.metrics import ExecutionRecord
from actors.task import AgentId, Task


def execution_record(agent: AgentId, phase: str, task: Task) -> ExecutionRecord:
    """Of the last step in the task's trail."""
    step = task.steps[-1]
    return ExecutionRecord(
        agent=agent,
        task_id=task.task_id,
        task_type=task.task_type,
        phase=phase,
        kind=step.kind,
        duration_s=step.duration_s,
        execution_s=step.execution_s,
        prompt_tokens=sum(call.prompt_tokens for call in step.calls),
        completion_tokens=sum(call.completion_tokens for call in step.calls),
        calls=len(step.calls),
        dropped_demonstrations=sum(call.dropped_demonstrations for call in step.calls),
        fallbacks=sum(bool(call.fallback) for call in step.calls),
        recall_skipped=step.recall_skipped,
    )
