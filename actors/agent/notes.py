"""Records of what an agent did, taken from the tasks it did it to. Pure."""

from typing import Literal

from actors.agent.events import Command, Note
from actors.mechanism import ForwardTo, Keep
from actors.messages import AgentView
from actors.metrics import (
    ArrivalRecord,
    CountRecord,
    DecisionRecord,
    ExecutionRecord,
    QueueRecord,
    Record,
)
from actors.task import AgentId, Task

Arrival = Literal["submitted", "forwarded", "split", "returned"]


class Notebook:
    """Writes one agent's notes; none where nobody wants them. Each method returns the commands to carry out."""

    def __init__(self, agent: AgentId, *, wanted: bool) -> None:
        self._agent = agent
        self._wanted = wanted
        self.phase = "start"

    def count(self, what: str) -> list[Command]:
        """Something worth counting happened."""
        if not self._wanted:
            return []
        return _note(CountRecord(agent=self._agent, phase=self.phase, what=what))

    def arrived(self, task: Task, how: Arrival, sender: str) -> list[Command]:
        """A task enters the agent's queue."""
        if not self._wanted:
            return []
        return _note(
            ArrivalRecord(
                agent=self._agent,
                task_id=task.task_id,
                task_type=task.task_type,
                phase=self.phase,
                how=how,
                sender=sender,
            )
        )

    def decided(
        self, task: Task, answer: Keep | ForwardTo, *, waiting: float, quality: float
    ) -> list[Command]:
        """A mechanism's answer, with the agent's own backlog (the task included) and estimate of the type."""
        if not self._wanted:
            return []
        return _note(
            DecisionRecord(
                agent=self._agent,
                task_id=task.task_id,
                task_type=task.task_type,
                phase=self.phase,
                chosen=answer.to if isinstance(answer, ForwardTo) else None,
                reason=answer.reason,
                waiting=int(waiting),
                quality=float(quality),
                candidates=answer.candidates,
                hops=task.hops,
                task_age_s=task.age_s,
            )
        )

    def executed(self, task: Task) -> list[Command]:
        """The last step in the task's trail has ended."""
        if not self._wanted:
            return []
        step = task.steps[-1]
        return _note(
            ExecutionRecord(
                agent=self._agent,
                task_id=task.task_id,
                task_type=task.task_type,
                phase=self.phase,
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
        )

    def told(self, view: AgentView) -> list[Command]:
        """The neighbours are told of the agent's load."""
        if not self._wanted:
            return []
        return _note(
            QueueRecord(
                agent=self._agent,
                phase=self.phase,
                waiting_T=view.waiting_T,
                in_service=view.in_service,
                quality_T=view.quality_T,
            )
        )


def _note(record: Record) -> list[Command]:
    return [Note(record=record)]
