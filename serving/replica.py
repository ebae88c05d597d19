"""A replica owns one model and counts what it does. Plain classes with async methods: whoever runs them on a
cluster wraps them there."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from serving.api import Backend, BackendSpec, Completion, Encoder, EncoderSpec, Request, Vectors
from serving.build import build_backend, build_encoder
from serving.errors import RetryableServingError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """What a replica has done since it started."""

    model: str
    healthy: bool
    in_flight: int
    served: int
    failed: int
    """Requests that raised; cancelled ones are not among them."""
    cancelled: int
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the prefix cache spared."""
    completion_tokens: int = 0


class Replica:
    """One backend: starts it, passes requests on, counts."""

    def __init__(self, spec: BackendSpec) -> None:
        self._spec = spec
        self._backend: Backend | None = None
        self._in_flight = self._served = self._failed = self._cancelled = 0
        self._prompt_tokens = self._cached_tokens = self._completion_tokens = 0

    async def start(self) -> None:
        """Build and load the model; nothing if it is already loaded.

        Raises FinalServingError for a spec that cannot be built, ReplicaStartError, UnknownModelError.
        """
        if self._backend is not None:
            return
        backend = build_backend(self._spec)
        try:
            await backend.start()
        except BaseException:
            await backend.close()
            raise
        self._backend = backend

    async def generate(self, request: Request) -> Completion:
        """Raises RetryableServingError or FinalServingError. Cancelling reaches the engine."""
        if self._backend is None:
            raise RetryableServingError(f"replica of {self._spec.model or self._spec.kind} is not started")
        self._in_flight += 1
        completion: Completion | None = None
        cancelled = False
        try:
            completion = await self._backend.generate(request)
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            self._in_flight -= 1
            self._count(completion, cancelled=cancelled)
        return completion

    async def status(self) -> ReplicaStatus:
        return ReplicaStatus(
            model=self._spec.model or self._spec.kind,
            healthy=self._backend is not None and await self._backend.healthy(),
            in_flight=self._in_flight,
            served=self._served,
            failed=self._failed,
            cancelled=self._cancelled,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            completion_tokens=self._completion_tokens,
        )

    async def close(self) -> None:
        """Free the model. May be called twice."""
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.close()

    def _count(self, completion: Completion | None, *, cancelled: bool) -> None:
        if completion is None:
            self._cancelled += cancelled
            self._failed += not cancelled
            return
        self._served += 1
        self._prompt_tokens += completion.usage.prompt_tokens
        self._cached_tokens += completion.usage.cached_tokens
        self._completion_tokens += completion.usage.completion_tokens


class EncoderReplica:
    """One encoder: starts it, passes texts on, counts."""

    def __init__(self, spec: EncoderSpec) -> None:
        self._spec = spec
        self._encoder: Encoder | None = None
        self._in_flight = self._served = self._failed = self._cancelled = 0

    async def start(self) -> None:
        """Build and load the encoder; nothing if it is already loaded. Raises as `Replica.start` does."""
        if self._encoder is not None:
            return
        encoder = build_encoder(self._spec)
        try:
            await encoder.start()
        except BaseException:
            await encoder.close()
            raise
        self._encoder = encoder

    async def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimensions). Raises ServingError."""
        if self._encoder is None:
            raise RetryableServingError(f"encoder {self._spec.model or self._spec.kind} is not started")
        self._in_flight += 1
        try:
            vectors = await self._encoder.encode(texts)
        except asyncio.CancelledError:
            self._cancelled += 1
            raise
        except BaseException:
            self._failed += 1
            raise
        finally:
            self._in_flight -= 1
        self._served += 1
        return vectors

    async def status(self) -> ReplicaStatus:
        return ReplicaStatus(
            model=self._spec.model or self._spec.kind,
            healthy=self._encoder is not None,
            in_flight=self._in_flight,
            served=self._served,
            failed=self._failed,
            cancelled=self._cancelled,
        )

    async def close(self) -> None:
        """Free the model. May be called twice."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            await encoder.close()
