"""What a step did, collected while it runs: shared by all step machines. Pure."""

from collections.abc import Generator
from dataclasses import replace
from zlib import crc32

from actors.config import ExecutorSettings
from actors.steps import prompts
from actors.steps.moves import Generate, Move, Recall, Recollection, Reply
from actors.task import AgentId, CallRecord, StepRecord, Task
from retrieval.api import Recalled
from serving.api import Completion, Prompt, Sampling

LOCAL_EXECUTION = frozenset({"execute", "answer", "part", "direct"})
"""Calls that count as local execution time (appendix A leaves out action, thought and check)."""


class StepLog:
    """Collects what a step did while it runs, and asks for its moves."""

    def __init__(self, settings: ExecutorSettings, task: Task) -> None:
        self._settings = settings
        own = crc32(task.task_id.encode()) if settings.seed_by_task else 0
        self._seed = (settings.seed + own) % 2**31
        self.calls: list[CallRecord] = []
        self.recalled: dict[str, float] = {}
        self.skipped = 0

    def recall(self, key_text: str) -> Generator[Move, Reply, tuple[Recalled, ...]]:
        reply = yield Recall(key_text=key_text)
        assert isinstance(reply, Recollection)
        self.skipped += reply.skipped
        self.recalled.update((r.trajectory.trajectory_id, r.score) for r in reply.found)
        return reply.found

    def generate(
        self,
        purpose: str,
        prompt: Prompt,
        *,
        choices: tuple[str, ...] = (),
        json_schema: dict[str, object] | None = None,
    ) -> Generator[Move, Reply, str]:
        sampling = Sampling(
            max_tokens=self._settings.max_tokens,
            temperature=self._settings.temperature,
            seed=self._seed,
            choices=choices,
            json_schema=json_schema,
        )
        reply = yield Generate(purpose=purpose, prompt=prompt, sampling=sampling)
        assert isinstance(reply, Completion)
        self.calls.append(
            CallRecord(
                purpose=purpose,
                prompt_tokens=reply.usage.prompt_tokens,
                completion_tokens=reply.usage.completion_tokens,
                duration_s=reply.duration_s,
                dropped_demonstrations=reply.dropped_demonstrations,
                text=reply.text,
            )
        )
        return reply.text.strip()

    def fell_back(self, why: str) -> None:
        """Marks the last call's answer as not used."""
        self.calls[-1] = replace(self.calls[-1], fallback=why)

    def record(self, task: Task, agent: AgentId, *, part: str, reasoning: str, result: str) -> StepRecord:
        return StepRecord(
            agent=agent,
            kind="executed",
            part=part,
            result=result,
            calls=tuple(self.calls),
            recalled=tuple(self.recalled.items()),
            recall_skipped=self.skipped,
            execution_s=sum(call.duration_s for call in self.calls if call.purpose in LOCAL_EXECUTION),
            duration_s=sum(call.duration_s for call in self.calls),
            key_text=prompts.recall_key(task, part),
            demonstration=prompts.demonstration_text(task, part, reasoning, result),
        )
