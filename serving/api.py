"""The interface of every model: plain values and two small protocols. Pure; imports nothing heavy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Row vectors of length one, shape (texts, dimensions)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A solved example that may be shown in a prompt."""

    text: str
    score: float
    """Retrieval score; where a prompt would overflow, the lowest goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One chat turn: `system`, then a user message made of `head`, demonstrations and `tail`.

    What a step's calls share stands in `head`, so that an engine's prefix cache can keep it.
    """

    system: str
    head: str
    tail: str
    demonstrations: tuple[Demonstration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to generate. The defaults are the DEALS paper's (appendix A)."""

    max_tokens: int = 2048
    temperature: float = 0.0
    seed: int = 1
    choices: tuple[str, ...] = ()
    """If given, the text is exactly one of these."""
    json_schema: Mapping[str, Any] | None = None
    """If given, the text is JSON of this schema. At most one of `choices` and `json_schema`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation. `task_id`, `task_type` and `purpose` are for simulation and records; a real model sees
    only the prompt."""

    request_id: str
    prompt: Prompt
    sampling: Sampling
    task_id: str = ""
    task_type: str = ""
    purpose: str = ""
    """What the call is for: action, thought, execute, answer, part, check, direct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one generation."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came back, with its measurements: part of the value, so that nobody below `actors` records."""

    text: str
    usage: Usage
    duration_s: float
    """From the call to the last token."""
    first_token_s: float | None = None
    finish_reason: Literal["stop", "length"] = "stop"
    dropped_demonstrations: int = 0
    """Demonstrations left out because the prompt would have overflowed the context."""


class Backend(Protocol):
    """One model. Cancelling the coroutine of `generate` must reach the engine."""

    async def start(self) -> None:
        """Load the model. Raises ReplicaStartError or UnknownModelError."""

    async def generate(self, request: Request) -> Completion:
        """Raises RetryableServingError or FinalServingError, and nothing else of its own."""

    async def healthy(self) -> bool:
        """Whether `generate` can be expected to work now."""

    async def close(self) -> None:
        """Free everything. May be called twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualReply:
    """What a model without a clock does with one request."""

    text: str
    service_s: float
    prompt_tokens: int
    dropped_demonstrations: int


class VirtualModel(Protocol):
    """A model that says how long it would take instead of taking it: what virtual time needs."""

    def reply(self, request: Request, *, in_flight: int = 1, attempt: int = 0) -> VirtualReply:
        """`in_flight` counts the calls under way, this one included; `attempt` the tries of one request id, from
        0. Raises ServingError."""


class VirtualEncoder(Protocol):
    """An encoder that needs no time: what virtual time can use."""

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimensions)."""


class Encoder(Protocol):
    """Sentence embeddings."""

    async def start(self) -> None:
        """Load the model."""

    async def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimensions). Raises ServingError."""

    async def close(self) -> None:
        """Free everything. May be called twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """Which backend to build and how, as a plain value that travels to the actor that builds it."""

    kind: str
    """vllm_engine | openai_http | simulated | replay"""
    model: str = ""
    """A name from `serving.models`, a local folder, or a hub id."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What this kind takes beside the model; an unknown key is an error that lists the known ones."""
    tensor_parallel: int = 1
    """GPUs of one replica; 0 where the backend needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """Which encoder to build; the same rules as `BackendSpec`."""

    kind: str
    """sentence_transformers | hashing (no model: for tests and simulations)"""
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
