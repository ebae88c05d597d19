"""Everything that crosses from one Ray actor to another, and Ray's exceptions in the project's terms."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from actors.errors import ClusterError, Retryable
from actors.messages import Address, AgentView, Envelope, agent_of
from actors.peer import Peer
from serving.api import Completion, Request, Vectors
from serving.errors import RetryableServingError

CALLS_IN_FLIGHT = 2
"""Unanswered calls to one peer: one travels while the other is worked on."""

ActorHandle = Any
"""Ray's handle of an actor; its methods are made at run time."""


def own_error(error: RayError) -> Exception | None:
    """The exception that the actor's method raised, as it raised it; None where the call never got so far."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(error, RayTaskError) and isinstance(cause, Exception) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConnect:
    """Finds the peer behind an address by the name of its actor."""

    namespace: str
    names: Mapping[Address, str]

    def __call__(self, to: Address) -> Peer:
        if to not in self.names:
            raise ClusterError(f"nobody at {to!r}; this plan has: {', '.join(self.names)}")
        return RayPeer(to, self.names[to], self.namespace)


class RayPeer:
    """An agent or the intake in another process.

    A call costs the same whatever it carries: while `CALLS_IN_FLIGHT` are unanswered, further messages wait and
    then go together. Alone, a message goes at once.
    """

    def __init__(self, address: Address, name: str, namespace: str) -> None:
        self._name = name
        self._namespace = namespace
        self._prefix = (agent_of(address),) if address.startswith("agent:") else ()
        self._actor: ActorHandle = None
        self._waiting: list[tuple[Envelope, asyncio.Future[AgentView | None]]] = []
        self._carriers: set[asyncio.Task[None]] = set()

    async def send(self, envelope: Envelope) -> AgentView | None:
        answer: asyncio.Future[AgentView | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((envelope, answer))
        if len(self._carriers) < CALLS_IN_FLIGHT:
            self._carriers.add(asyncio.create_task(self._carry()))
        return await answer

    async def _carry(self) -> None:
        """Carries what waits, until nothing does. Every sender is answered, whatever happens."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._carry_batch(batch)
        finally:
            # At once and not by a callback: a message sent meanwhile would wait for a carrier that is gone.
            self._carriers -= {asyncio.current_task()}

    async def _carry_batch(self, batch: list[tuple[Envelope, asyncio.Future[AgentView | None]]]) -> None:
        try:
            answers = await self._call([envelope for envelope, _ in batch])
        except asyncio.CancelledError:
            for _, answer in batch:
                answer.cancel()
            raise
        except Exception as error:
            answers = [error] * len(batch)
        for (_, answer), came in zip(batch, answers, strict=True):
            if answer.done():  # its sender has been cancelled
                continue
            if isinstance(came, Exception):
                answer.set_exception(came)
            else:
                answer.set_result(came)

    async def _call(self, envelopes: list[Envelope]) -> Sequence[AgentView | Exception | None]:
        try:
            if self._actor is None:
                # In a thread: Ray blocks while it fetches the actor's class, and this agent has other work.
                self._actor = await asyncio.to_thread(ray.get_actor, self._name, self._namespace)
            answers: Sequence[AgentView | Exception | None]
            answers = await self._actor.on_batch.remote(*self._prefix, envelopes)
        except RayError as error:
            raise own_error(error) or Retryable(f"{self._name} does not answer: {_brief(error)}") from None
        except ValueError as error:  # no actor of this name: gone, or not yet there
            raise Retryable(f"{self._name} is not there: {error}") from None
        return answers


class RayModel:
    """An agent's pinned replica in another process."""

    def __init__(self, replica: ActorHandle, name: str) -> None:
        self._replica = replica
        self._name = name

    async def generate(self, request: Request) -> Completion:
        completion: Completion = await _served(self._replica.generate.remote(request), self._name)
        return completion


class RayEmbedder:
    """The encoder in another process."""

    def __init__(self, encoder: ActorHandle, name: str) -> None:
        self._encoder = encoder
        self._name = name

    async def encode(self, texts: Sequence[str]) -> Vectors:
        vectors: Vectors = await _served(self._encoder.encode.remote(list(texts)), self._name)
        return vectors


async def _served(ref: Any, name: str) -> Any:
    """The answer to a serving call. Cancelling it here cancels it there."""
    try:
        return await ref
    except asyncio.CancelledError:
        ray.cancel(ref, recursive=False)
        raise
    except RayError as error:
        raise own_error(error) or RetryableServingError(f"{name} does not answer: {_brief(error)}") from None


def _brief(error: Exception) -> str:
    """The first line of what Ray says; the rest is for its own logs."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
