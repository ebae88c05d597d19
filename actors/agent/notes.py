"""Records of what an agent did, taken from the task it did it to. Pure."""

from typing import Literal

from actors.mechanism import ForwardTo, Keep
from actors.metrics import ArrivalRecord, DecisionRecord, ExecutionRecord
from actors.task import AgentId, Task

Arrival = Literal["submitted", "forwarded", "split", "returned"]


def arrival_record(agent: AgentId, phase: str, task: Task, how: Arrival, sender: str) -> ArrivalRecord:
    """Of a task that enters the agent's queue."""
    return ArrivalRecord(
        agent=agent,
        task_id=task.task_id,
        task_type=task.task_type,
        phase=phase,
        how=how,
        sender=sender,
    )


def decision_record(
    agent: AgentId, phase: str, task: Task, answer: Keep | ForwardTo, *, waiting: int, quality: float
) -> DecisionRecord:
    """Of a mechanism's answer, with the agent's own backlog and estimate of the task's type."""
    return DecisionRecord(
        agent=agent,
        task_id=task.task_id,
        task_type=task.task_type,
        phase=phase,
        chosen=answer.to if isinstance(answer, ForwardTo) else None,
        reason=answer.reason,
        waiting=waiting,
        quality=quality,
        candidates=answer.candidates,
        hops=task.hops,
        task_age_s=task.age_s,
    )


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
