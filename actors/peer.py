"""The one way to another actor."""

from typing import Protocol

from actors.messages import AgentView, Envelope


class Peer(Protocol):
    """An agent or an intake, wherever it runs."""

    async def send(self, envelope: Envelope) -> AgentView | None:
        """Hands a message over; returning means the receiver has it. An agent answers with its own view, so
        that a forward refreshes what the sender knows. Raises Retryable where the receiver did not answer."""
