"""One agent's private trajectory memory: remember what succeeded, recall what is alike."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from retrieval.api import Index, Recalled, Trajectory, Vector
from retrieval.ranking import RankingSettings, best_first, time_weighted_scores

# float32 sums over a thousand dimensions stay far inside this; a vector nobody normalised does not.
_NORM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """A remembered trajectory as a plain value."""

    trajectory: Trajectory
    vector: tuple[float, ...]
    """Of length one; what `trajectory.key_text` was encoded to."""
    uses: int = 0
    """How often it was returned by a recall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySnapshot:
    """The whole content of a memory as a plain value, so that a run can be resumed."""

    entries: tuple[MemoryEntry, ...] = ()
    """Oldest first."""


class TrajectoryMemory:
    """At most `capacity` trajectories, found again by cosine and execution time.

    Source: DEALS section 3.3 and appendix A. Not for several threads at once.
    """

    def __init__(self, index: Index, capacity: int = 40, ranking: RankingSettings | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"memory capacity is {capacity}; give 1 or more")
        if len(index):
            raise ValueError(f"a new memory needs an empty index, not one with {len(index)} vectors")
        self._index = index
        self._capacity = capacity
        self._ranking = ranking if ranking is not None else RankingSettings()
        self._entries: dict[int, MemoryEntry] = {}  # by vector id; ids grow, so insertion order is age
        self._ids: dict[str, int] = {}
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[MemoryEntry]:
        """Oldest first."""
        return iter(self._entries.values())

    def remember(self, trajectory: Trajectory, vector_D: Vector) -> str | None:
        """Store a trajectory; returns the id of the one that made room for it, if one had to.

        A trajectory that is stored already changes nothing. Raises ValueError, naming the trajectory, for a
        vector that is not of length one or a duration that is no time.
        """
        name = trajectory.trajectory_id
        if name in self._ids:
            return None
        entry = _checked_entry(trajectory, vector_D)
        victim = self._victim(trajectory.task_type) if len(self._entries) >= self._capacity else None
        self._insert(entry)
        if victim is None:
            return None
        evicted = self._entries[victim].trajectory.trajectory_id
        self._drop(victim)
        return evicted

    def recall(self, vector_D: Vector) -> list[Recalled]:
        """The trajectories that qualify, best first; each return counts as a use.

        Every stored one is scored: the time factor may lift a trajectory over one of higher cosine. Raises
        ValueError for a query that is not of length one.
        """
        query_D = _unit_vector(vector_D, "the query vector of a recall")
        found = self._index.search(query_D, len(self._entries))
        if not found:
            return []
        ids_M = np.array([vector_id for vector_id, _ in found], dtype=np.int64)
        cosines_M = np.array([cosine for _, cosine in found], dtype=np.float64)
        durations_s_M = np.array([self._entries[i].trajectory.duration_s for i, _ in found], dtype=np.float64)
        scores_M = time_weighted_scores(cosines_M, durations_s_M, self._ranking)
        recalled = []
        for position in best_first(scores_M, ids_M, self._ranking).tolist():
            vector_id = found[position][0]
            entry = self._entries[vector_id]
            self._entries[vector_id] = replace(entry, uses=entry.uses + 1)
            recalled.append(Recalled(trajectory=entry.trajectory, score=float(scores_M[position])))
        return recalled

    def snapshot(self) -> MemorySnapshot:
        """Everything that is remembered, oldest first."""
        return MemorySnapshot(entries=tuple(self))

    def restore(self, snapshot: MemorySnapshot) -> None:
        """Put a snapshot in the place of the present content.

        Raises ValueError, and changes nothing, for a snapshot that holds more than the capacity, an id twice,
        or a vector that does not fit.
        """
        entries = [
            _checked_entry(e.trajectory, np.array(e.vector, np.float32), e.uses) for e in snapshot.entries
        ]
        if len(entries) > self._capacity:
            raise ValueError(
                f"the snapshot holds {len(entries)} trajectories and this memory at most {self._capacity}; "
                "raise the memory's capacity"
            )
        counts = Counter(e.trajectory.trajectory_id for e in entries)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"the snapshot holds trajectory {twice[0]!r} more than once")
        if len({len(e.vector) for e in entries}) > 1:
            raise ValueError("the snapshot holds vectors of different dimensions")
        old_ids = list(self._entries)
        # New before old: a wrong dimension raises at the first one, when nothing is lost yet.
        new_ids = [self._add_to_index(entry) for entry in entries]
        for vector_id in old_ids:
            self._index.remove(vector_id)
        self._entries = dict(zip(new_ids, entries, strict=True))
        self._ids = {entry.trajectory.trajectory_id: i for i, entry in self._entries.items()}

    def _victim(self, arriving_type: str) -> int:
        """Whose place the newcomer takes: of the most represented type, the least used, then the oldest.

        The newcomer counts for its type but cannot be chosen itself, or a memory of well-used trajectories
        would never learn again. Several most represented types are treated as one.
        """
        counts = Counter(entry.trajectory.task_type for entry in self._entries.values())
        counts[arriving_type] += 1
        most = max(counts[entry.trajectory.task_type] for entry in self._entries.values())
        candidates = (
            (entry.uses, vector_id)
            for vector_id, entry in self._entries.items()
            if counts[entry.trajectory.task_type] == most
        )
        return min(candidates)[1]

    def _add_to_index(self, entry: MemoryEntry) -> int:
        vector_id = self._next_id
        try:
            self._index.add(vector_id, np.array(entry.vector, dtype=np.float32))
        except ValueError as error:
            raise ValueError(f"trajectory {entry.trajectory.trajectory_id!r}: {error}") from error
        self._next_id += 1
        return vector_id

    def _insert(self, entry: MemoryEntry) -> None:
        vector_id = self._add_to_index(entry)
        self._entries[vector_id] = entry
        self._ids[entry.trajectory.trajectory_id] = vector_id

    def _drop(self, vector_id: int) -> None:
        self._index.remove(vector_id)
        del self._ids[self._entries.pop(vector_id).trajectory.trajectory_id]


def _checked_entry(trajectory: Trajectory, vector_D: Vector, uses: int = 0) -> MemoryEntry:
    name = trajectory.trajectory_id
    if not (np.isfinite(trajectory.duration_s) and trajectory.duration_s >= 0):
        raise ValueError(f"trajectory {name!r} has a duration of {trajectory.duration_s} s; give 0 or more")
    if uses < 0:
        raise ValueError(f"trajectory {name!r} has a use count of {uses}; give 0 or more")
    unit_D = _unit_vector(vector_D, f"the vector of trajectory {name!r}")
    return MemoryEntry(trajectory=trajectory, vector=tuple(unit_D.tolist()), uses=uses)


def _unit_vector(vector_D: Vector, what: str) -> Vector:
    unit_D = np.asarray(vector_D, dtype=np.float32)
    if unit_D.ndim != 1:
        raise ValueError(f"{what} has shape {unit_D.shape}; give one vector of shape (dimensions,)")
    if not np.isfinite(unit_D).all():
        raise ValueError(f"{what} holds a number that is not finite; check the encoder")
    norm = float(np.linalg.norm(unit_D))
    if abs(norm - 1.0) > _NORM_TOLERANCE:
        raise ValueError(f"{what} has length {norm:.4g}, not 1; normalise it")
    return unit_D
