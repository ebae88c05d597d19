"""The one way to another actor."""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from actors.messages import AgentView, Envelope


class Peer(Protocol):
    """An agent or an intake, wherever it runs."""

    async def send(self, envelope: Envelope) -> AgentView | None:
        """Hands a message over; returning means the receiver has it. An agent answers with its own view, so
        that a forward refreshes what the sender knows. Raises Retryable where the receiver did not answer."""


Answer = TypeVar("Answer")


async def answered(work: Awaitable[Answer]) -> Answer | Exception:
    """What `work` came to: its result, or what it raised as a value. For answers that travel together."""
    try:
        return await work
    except Exception as error:
        return error
