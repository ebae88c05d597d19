"""Inner-product search with FAISS. The only file that imports it."""

import faiss
import numpy as np

from retrieval.api import Vector


class FaissIndex:
    """An `Index` over IndexFlatIP with own ids. Equal cosines: the smaller id first."""

    def __init__(self, dimensions: int) -> None:
        if dimensions < 1:
            raise ValueError(f"an index needs at least one dimension, not {dimensions}")
        self._dimensions = dimensions
        self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimensions))
        # FAISS accepts an id twice without a word, so the ids are kept here as well.
        self._ids: set[int] = set()

    def add(self, vector_id: int, vector_D: Vector) -> None:
        if vector_id in self._ids:
            raise ValueError(f"vector id {vector_id} is already in the index; remove it first")
        self._check_shape(vector_D)
        ids_1 = np.array([vector_id], dtype=np.int64)
        self._index.add_with_ids(np.array(vector_D, dtype=np.float32)[np.newaxis], ids_1)
        self._ids.add(vector_id)

    def remove(self, vector_id: int) -> None:
        if vector_id not in self._ids:
            raise KeyError(f"vector id {vector_id} is not in the index")
        self._index.remove_ids(faiss.IDSelectorBatch(np.array([vector_id], dtype=np.int64)))
        self._ids.remove(vector_id)

    def search(self, query_D: Vector, limit: int) -> list[tuple[int, float]]:
        self._check_shape(query_D)
        if not self._ids or limit < 1:
            return []
        # A flat index compares with every vector anyway; fetching all lets ties at the cut go by id.
        query_1D = np.ascontiguousarray(query_D, dtype=np.float32)[np.newaxis]
        cosines_1M, ids_1M = self._index.search(query_1D, len(self._ids))
        found = zip(ids_1M[0].tolist(), cosines_1M[0].tolist(), strict=True)
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def __len__(self) -> int:
        return len(self._ids)

    def _check_shape(self, vector_D: Vector) -> None:
        if np.shape(vector_D) != (self._dimensions,):
            raise ValueError(
                f"the index holds vectors of shape ({self._dimensions},), not {np.shape(vector_D)}; "
                "build the memory with the encoder's dimensions"
            )
