"""A task and everything that travels with it. Pure."""

from dataclasses import dataclass
from typing import Literal, NewType

AgentId = NewType("AgentId", int)
"""Index of an agent in the topology; ties go to the smallest."""
TaskId = NewType("TaskId", str)
TaskType = NewType("TaskType", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One model call of an execution step."""

    purpose: str
    prompt_tokens: int
    completion_tokens: int
    duration_s: float
    dropped_demonstrations: int = 0
    text: str = ""
    """The model's answer; kept for `trace`."""
    fallback: str = ""
    """Why the answer was not used as it stood (an unparseable action, say); empty if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One execution step of one agent: it completed the task, split a part off, or (where models route) handed
    the task on."""

    agent: AgentId
    kind: Literal["executed", "split", "forwarded", "failed"]
    part: str = ""
    """What was done here; empty where the whole task was."""
    result: str = ""
    """The answer, the partial result, or the error."""
    calls: tuple[CallRecord, ...] = ()
    recalled: tuple[tuple[str, float], ...] = ()
    """(trajectory id, score) of every demonstration that was shown."""
    recall_skipped: int = 0
    """Retrievals left out because the encoder or the memory did not answer."""
    execution_s: float = 0.0
    """Local execution only: without action selection, preliminary thought and check (appendix A)."""
    duration_s: float = 0.0
    """The whole step."""
    key_text: str = ""
    """What the trajectory of this step is found by."""
    demonstration: str = ""
    """What a later prompt would show of this step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPart:
    """A part that a split finished."""

    agent: AgentId
    part: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A typed unit of work on its way through the graph."""

    task_id: TaskId
    task_type: TaskType
    problem: str
    answer_format: str = ""
    """What a valid answer looks like, for the prompt."""
    choices: tuple[str, ...] = ()
    """The closed set of answers, where there is one; lets a backend constrain the answer."""
    attempt: int = 0
    """Raised on each re-injection; fences a stale holder."""
    hops: int = 0
    """Forwards since arrival or since the last split (DEALS section 3.2: at most 3)."""
    previous: AgentId | None = None
    """Who forwarded it here; a task never goes straight back."""
    progress: tuple[ProgressPart, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    """The trail: every step so far, oldest first. Credit goes to every agent in it."""
    forwards: int = 0
    """Forwards in all."""
    age_s: float = 0.0
    """Seconds since acceptance, as of when it was last sent or queued; never a host's clock."""
    remaining_s: float | None = None
    """Seconds until its deadline, as of the same moment; None: no deadline."""
    tenant: str = "default"
    trace_id: str = ""

    @property
    def splits(self) -> int:
        """Parts already split off."""
        return len(self.progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a task ended. Exactly one of `answer` and `error` is set."""

    task: Task
    """As it was at the end, with its whole trail."""
    finisher: AgentId
    answer: str | None = None
    error: str | None = None
