"""The interface of memory: plain values and one protocol. Pure."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""A vector of length one, shape (dimensions,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One agent's own successful work on one task, as a demonstration for later ones (DEALS section 3.3)."""

    trajectory_id: str
    """Unique in one memory; remembering the same id twice changes nothing."""
    task_type: str
    key_text: str
    """What it is found by: problem + progress + part description."""
    text: str
    """What a prompt shows."""
    duration_s: float
    """Local execution time: without action selection, preliminary thought and completion check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A trajectory that qualified, best first in a list."""

    trajectory: Trajectory
    score: float


class Index(Protocol):
    """Inner-product search over unit vectors with stable 64-bit ids."""

    def add(self, vector_id: int, vector_D: Vector) -> None:
        """Raises ValueError for a known id or a wrong dimension."""

    def remove(self, vector_id: int) -> None:
        """Raises KeyError for an unknown id."""

    def search(self, query_D: Vector, limit: int) -> list[tuple[int, float]]:
        """(id, cosine) pairs, best first; at most `limit`, fewer if fewer are stored."""

    def __len__(self) -> int: ...
