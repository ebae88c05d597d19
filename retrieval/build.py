"""Where the index of a memory is chosen; nobody else names one."""

from typing import Literal

from retrieval.api import Index
from retrieval.exact_index import ExactIndex
from retrieval.memory import TrajectoryMemory
from retrieval.ranking import RankingSettings

IndexKind = Literal["faiss", "exact"]


def build_memory(
    *,
    kind: IndexKind = "faiss",
    dimensions: int,
    capacity: int = 40,
    ranking: RankingSettings | None = None,
) -> TrajectoryMemory:
    """An empty memory for vectors of shape (dimensions,). Raises ValueError for an unknown kind."""
    return TrajectoryMemory(_build_index(kind, dimensions), capacity=capacity, ranking=ranking)


def _build_index(kind: str, dimensions: int) -> Index:
    if kind == "exact":
        return ExactIndex(dimensions)
    if kind == "faiss":
        from retrieval.faiss_index import FaissIndex

        return FaissIndex(dimensions)
    raise ValueError(f"no index of kind {kind!r}; known: exact, faiss")
