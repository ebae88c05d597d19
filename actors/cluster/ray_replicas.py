"""Replicas that Ray may start again: a restart re-runs the constructor only, so the model loads on demand."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from serving.api import BackendSpec, Completion, EncoderSpec, Request, Vectors
from serving.errors import ReplicaStartError, RetryableServingError
from serving.replica import EncoderReplica, Replica, ReplicaStatus

RELOAD_AFTER_S = 5.0
"""How long to wait after a reload that failed: the process that died may not have freed its memory yet."""


class Loading:
    """One attempt to load at a time, shared by all calls that wait for it."""

    def __init__(self, load: Callable[[], Awaitable[None]]) -> None:
        self._load = load
        self._attempt: asyncio.Task[None] | None = None

    async def once(self) -> None:
        """Loads, unless that is done. Raises what loading raises."""
        if self._attempt is None or self._failed(self._attempt):
            self._attempt = asyncio.ensure_future(self._load_it())
        await asyncio.shield(self._attempt)  # a caller that gives up must not stop it for the others

    async def again(self) -> None:
        """The same for a replica in service, where a failure may pass."""
        try:
            await self.once()
        except ReplicaStartError as error:
            raise RetryableServingError(f"could not be loaded again: {error}", RELOAD_AFTER_S) from error

    async def _load_it(self) -> None:
        await self._load()

    @staticmethod
    def _failed(attempt: asyncio.Task[None]) -> bool:
        return attempt.done() and (attempt.cancelled() or attempt.exception() is not None)


class ModelHost:
    """A replica whose process Ray may start again."""

    def __init__(self, spec: BackendSpec) -> None:
        self._replica = Replica(spec)
        self._loading = Loading(self._replica.start)

    async def start(self) -> None:
        """Raises what `Replica.start` raises."""
        await self._loading.once()

    async def generate(self, request: Request) -> Completion:
        """Raises ServingError; cancelling reaches the engine."""
        await self._loading.again()
        return await self._replica.generate(request)

    async def status(self) -> ReplicaStatus:
        return await self._replica.status()

    async def close(self) -> None:
        await self._replica.close()


class EncoderHost:
    """An encoder whose process Ray may start again."""

    def __init__(self, spec: EncoderSpec) -> None:
        self._replica = EncoderReplica(spec)
        self._loading = Loading(self._replica.start)

    async def start(self) -> None:
        """Raises what `EncoderReplica.start` raises."""
        await self._loading.once()

    async def encode(self, texts: Sequence[str]) -> Vectors:
        """Raises ServingError."""
        await self._loading.again()
        return await self._replica.encode(texts)

    async def status(self) -> ReplicaStatus:
        return await self._replica.status()

    async def close(self) -> None:
        await self._replica.close()
