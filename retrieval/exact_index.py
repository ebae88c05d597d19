"""Inner-product search with numpy alone: the oracle of the index tests, and an index without FAISS."""

import numpy as np
from numpy.typing import NDArray

from retrieval.api import Vector


class ExactIndex:
    """An `Index` that compares with every stored vector. Equal cosines: the smaller id first."""

    def __init__(self, dimensions: int) -> None:
        if dimensions < 1:
            raise ValueError(f"an index needs at least one dimension, not {dimensions}")
        self._dimensions = dimensions
        self._vectors: dict[int, Vector] = {}
        self._matrix_MD: NDArray[np.float32] | None = None

    def add(self, vector_id: int, vector_D: Vector) -> None:
        if vector_id in self._vectors:
            raise ValueError(f"vector id {vector_id} is already in the index; remove it first")
        self._check_shape(vector_D)
        self._vectors[vector_id] = np.array(vector_D, dtype=np.float32)
        self._matrix_MD = None

    def remove(self, vector_id: int) -> None:
        if vector_id not in self._vectors:
            raise KeyError(f"vector id {vector_id} is not in the index")
        del self._vectors[vector_id]
        self._matrix_MD = None

    def search(self, query_D: Vector, limit: int) -> list[tuple[int, float]]:
        self._check_shape(query_D)
        if not self._vectors or limit < 1:
            return []
        if self._matrix_MD is None:
            self._matrix_MD = np.stack(list(self._vectors.values()))
        # A matrix product may sum equal rows in different orders; a sum over each row gives equal rows equal
        # cosines, and so ties that go by id.
        cosines_M = (self._matrix_MD * np.asarray(query_D, dtype=np.float32)).sum(axis=1, dtype=np.float64)
        found = zip(self._vectors, cosines_M.tolist(), strict=True)
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def __len__(self) -> int:
        return len(self._vectors)

    def _check_shape(self, vector_D: Vector) -> None:
        if np.shape(vector_D) != (self._dimensions,):
            raise ValueError(
                f"the index holds vectors of shape ({self._dimensions},), not {np.shape(vector_D)}; "
                "build the memory with the encoder's dimensions"
            )
