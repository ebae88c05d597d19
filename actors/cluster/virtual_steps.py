"""Execution steps of one agent under virtual time: step machines driven by models that say how long they take."""

from collections.abc import Callable
from dataclasses import dataclass

from actors.agent.events import Execute
from actors.agent.shell import RETRY_PAUSE_S, unanswered
from actors.cluster.virtual_memory import VirtualMemory
from actors.config import ExecutorSettings
from actors.steps.machines import STEP_MACHINES, without_splits
from actors.steps.moves import Generate, Move, Recall, Reply, Step, StepResult
from actors.task import AgentId, StepRecord, Task, TaskId
from serving.api import Completion, Request, Usage, VirtualModel
from serving.errors import RetryableServingError, ServingError


@dataclass(slots=True)
class _Running:
    """A step under way."""

    task: Task
    step: Step
    token: int
    began_s: float
    calls: int = 0
    tries: int = 0
    call_began_s: float = 0.0
    request: Request | None = None
    calling: bool = False
    """Whether a call is under way; else a failed one waits for its next try."""
    reply: Completion | None = None
    """What the call that is under way will say; None for one that will take too long."""


class StepRunner:
    """Interprets the steps of one agent, as its shell would: the same tries, timeouts and patience."""

    def __init__(
        self,
        agent: AgentId,
        model: VirtualModel,
        executor: ExecutorSettings,
        memory: VirtualMemory,
        count: Callable[[AgentId, str], None],
    ) -> None:
        """`count` is told what the shell would count."""
        self._agent = agent
        self._model = model
        self._executor = executor
        self._memory = memory
        self._count = count
        self._machine = STEP_MACHINES[executor.kind]
        self._running: dict[TaskId, _Running] = {}
        self._tokens = 0
        self._in_flight = 0

    def begin(self, what: Execute, now_s: float) -> tuple[float, int] | StepResult:
        """Starts a step: (seconds until its first call ends, token), or its result."""
        self._tokens += 1
        task, executor = what.task, self._executor if what.may_split else without_splits(self._executor)
        step = self._machine(task, self._agent, executor, what.surroundings)
        running = _Running(task=task, step=step, token=self._tokens, began_s=now_s)
        self._running[task.task_id] = running
        return self._advance(running, None, now_s)

    def go_on(self, task_id: TaskId, token: int, now_s: float) -> tuple[float, int] | StepResult | None:
        """After a call's time; None where the step was aborted meanwhile."""
        running = self._running.get(task_id)
        if running is None or running.token != token:
            return None
        if not running.calling:
            return self._call(running, now_s)
        running.calling = False
        self._in_flight -= 1
        if running.reply is None:
            assert running.request is not None
            return self._again(running, unanswered(running.request, self._executor.call_timeout_s), now_s)
        return self._advance(running, running.reply, now_s)

    def abort(self, task_id: TaskId) -> None:
        """Forgets a step."""
        running = self._running.pop(task_id, None)
        if running is not None:
            self._in_flight -= running.calling

    def _advance(
        self, running: _Running, reply: Reply | None, now_s: float
    ) -> tuple[float, int] | StepResult:
        try:
            move: Move = next(running.step) if reply is None else running.step.send(reply)
            while isinstance(move, Recall):
                running.calls += 1
                move = running.step.send(self._memory.recall(move.key_text))
        except StopIteration as stop:
            del self._running[running.task.task_id]
            result: StepResult = stop.value
            return result
        return self._generate(running, move, now_s)

    def _generate(self, running: _Running, move: Generate, now_s: float) -> tuple[float, int] | StepResult:
        running.calls += 1
        running.tries = 0
        running.call_began_s = now_s
        task = running.task
        running.request = Request(
            request_id=f"{task.task_id}/{task.attempt}/{len(task.steps)}/{running.calls}",
            prompt=move.prompt,
            sampling=move.sampling,
            task_id=task.task_id,
            task_type=task.task_type,
            purpose=move.purpose,
        )
        return self._call(running, now_s)

    def _call(self, running: _Running, now_s: float) -> tuple[float, int] | StepResult:
        """One try of the call that is due."""
        assert running.request is not None
        try:
            said = self._model.reply(running.request, in_flight=self._in_flight + 1, attempt=running.tries)
        except RetryableServingError as error:
            return self._again(running, error, now_s)
        except ServingError as error:
            return self._failed(running, str(error), now_s)
        self._in_flight += 1
        running.calling = True
        if said.service_s > self._executor.call_timeout_s:
            running.reply = None
            return self._executor.call_timeout_s, running.token
        running.reply = Completion(
            text=said.text,
            usage=Usage(prompt_tokens=said.prompt_tokens, completion_tokens=max(1, len(said.text) // 4)),
            duration_s=said.service_s,
            dropped_demonstrations=said.dropped_demonstrations,
        )
        return said.service_s, running.token

    def _again(
        self, running: _Running, error: RetryableServingError, now_s: float
    ) -> tuple[float, int] | StepResult:
        """Waits for the next try, within the executor's patience."""
        pause_s = max(error.after_s, RETRY_PAUSE_S)
        running.tries += 1
        if now_s + pause_s > running.call_began_s + self._executor.call_patience_s:
            return self._failed(running, str(error), now_s)
        self._count(self._agent, "model call retried")
        return pause_s, running.token

    def _failed(self, running: _Running, error: str, now_s: float) -> StepResult:
        del self._running[running.task.task_id]
        duration_s = now_s - running.began_s
        return StepResult(
            record=StepRecord(agent=self._agent, kind="failed", result=error, duration_s=duration_s)
        )
