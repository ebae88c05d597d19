"""The language between a step machine and its interpreter. Pure.

A step machine is a generator: it yields moves, is sent the reply to each, and returns a `StepResult`. It
holds no clock, no chance and no I/O; what took how long comes with the replies.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from actors.config import ExecutorSettings
from actors.task import AgentId, StepRecord, Task
from retrieval.api import Recalled
from serving.api import Completion, Prompt, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Ask the agent's memory for demonstrations."""

    key_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Reply to `Recall`."""

    found: tuple[Recalled, ...] = ()
    skipped: bool = False
    """The encoder or the memory did not answer; the step goes on without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Ask the agent's model. Replied to with a `Completion`."""

    purpose: str
    prompt: Prompt
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Colleague:
    """An agent as a step that routes by itself sees it."""

    agent: AgentId
    quality: float
    """Success estimate for the task's type."""
    load: int
    """Tasks waiting or in service."""
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a step runs: the agent itself, and the neighbours that its task may go to."""

    own: Colleague
    neighbours: tuple[Colleague, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """How a step ended. With `answer` the task is complete; with `forward_to` it goes to that neighbour; without
    either, `record` is a split and the rest of the task goes back to the local queue."""

    record: StepRecord
    answer: str | None = None
    forward_to: AgentId | None = None


Move = Recall | Generate
Reply = Recollection | Completion
Step = Generator[Move, Reply, StepResult]
StepMachine = Callable[[Task, AgentId, ExecutorSettings, Surroundings | None], Step]
"""Surroundings are given to the machines that ask for them (`ROUTING_MACHINES`)."""
