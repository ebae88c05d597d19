"""Which messages were seen: part of the state, so that a repeated delivery changes nothing. Pure."""

from actors.messages import Address, Envelope

WINDOW = 4096
"""Sequences further back than this count as seen; a transport that reorders by more is broken."""


class SeenMessages:
    """Remembers (sender, epoch, sequence) exactly within a window for each sender's incarnation."""

    def __init__(self) -> None:
        self._newest: dict[tuple[Address, int], int] = {}
        self._recent: dict[tuple[Address, int], set[int]] = {}

    def first_time(self, envelope: Envelope) -> bool:
        """Whether this message is new; from now on it is not."""
        key, sequence = (envelope.sender, envelope.epoch), envelope.sequence
        newest = self._newest.get(key, -1)
        recent = self._recent.setdefault(key, set())
        if sequence in recent or sequence <= newest - WINDOW:
            return False
        recent.add(sequence)
        self._newest[key] = newest = max(newest, sequence)
        if len(recent) > 2 * WINDOW:
            self._recent[key] = {kept for kept in recent if kept > newest - WINDOW}
        return True
