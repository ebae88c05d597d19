"""How a plan runs under virtual time. Kept apart from what runs it, so that settings load quickly."""

from pydantic import Field

from actors.config import Settings


class SimulationSettings(Settings):
    """How a plan runs under virtual time."""

    delay_s: float = Field(default=0.001, ge=0)
    """Of every message, and of the answer to a hand-over."""
    record: bool = False
    """Whether measurements and, with an encoder of kind hashing, trajectories are kept: what a run folder shows.
    Simulated models answer alike with and without them."""
