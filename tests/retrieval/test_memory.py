"""What a memory remembers, recalls, evicts and restores; over both indexes."""

import pickle
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.api import Trajectory, Vector
from retrieval.build import IndexKind, build_memory
from retrieval.memory import MemorySnapshot, TrajectoryMemory

KINDS: tuple[IndexKind, ...] = ("exact", "faiss")


def trajectory(name: str, task_type: str = "a", duration_s: float = 60.0) -> Trajectory:
    return Trajectory(
        trajectory_id=name, task_type=task_type, key_text=f"key {name}", text=name, duration_s=duration_s
    )


def at_cosine(cosine: float, axis: int = 1) -> Vector:
    """A unit vector with this cosine to the query QUERY."""
    vector_D = np.zeros(4, np.float32)
    vector_D[0], vector_D[axis] = cosine, np.sqrt(1 - cosine**2)
    return vector_D


QUERY = at_cosine(1.0)


@pytest.fixture(params=KINDS)
def memory(request: pytest.FixtureRequest) -> TrajectoryMemory:
    return build_memory(kind=request.param, dimensions=4, capacity=3)


def names(memory: TrajectoryMemory) -> list[str]:
    return [entry.trajectory.trajectory_id for entry in memory]


def uses(memory: TrajectoryMemory) -> dict[str, int]:
    return {entry.trajectory.trajectory_id: entry.uses for entry in memory}


def test_the_time_factor_decides_before_the_cut(memory: TrajectoryMemory) -> None:
    memory.remember(trajectory("slow", duration_s=540.0), at_cosine(0.80))  # 0.80 * 1.02 = 0.816
    memory.remember(trajectory("fast", duration_s=0.0), at_cosine(0.75))  # 0.75 * 1.2 = 0.9
    memory.remember(trajectory("lifted", duration_s=0.0), at_cosine(0.60))  # 0.60 * 1.2 = 0.72
    recalled = memory.recall(QUERY)
    assert [r.trajectory.trajectory_id for r in recalled] == ["fast", "slow", "lifted"]
    assert [r.score for r in recalled] == pytest.approx([0.9, 0.816, 0.72], abs=1e-6)


def test_a_lifted_one_outside_the_nearest_three_is_still_found() -> None:
    memory = build_memory(dimensions=4)
    for i in range(4):
        memory.remember(trajectory(f"near {i}", duration_s=1e6), at_cosine(0.80))
    memory.remember(trajectory("quick", duration_s=0.0), at_cosine(0.75))
    found = [r.trajectory.trajectory_id for r in memory.recall(QUERY)]
    assert found == ["quick", "near 0", "near 1"]


def test_only_what_qualifies_is_returned_and_counted(memory: TrajectoryMemory) -> None:
    memory.remember(trajectory("yes", duration_s=60.0), at_cosine(0.9))
    memory.remember(trajectory("no", duration_s=60.0), at_cosine(0.6))  # 0.66
    assert [r.trajectory.trajectory_id for r in memory.recall(QUERY)] == ["yes"]
    memory.recall(QUERY)
    assert uses(memory) == {"yes": 2, "no": 0}


def test_an_empty_memory_recalls_nothing(memory: TrajectoryMemory) -> None:
    assert memory.recall(QUERY) == []


def test_the_same_trajectory_twice_changes_nothing(memory: TrajectoryMemory) -> None:
    memory.remember(trajectory("one"), at_cosine(0.9))
    before = memory.snapshot()
    assert memory.remember(trajectory("one", task_type="b"), at_cosine(0.1)) is None
    assert memory.snapshot() == before
    assert len(memory) == 1


def test_eviction_takes_the_least_used_of_the_most_represented_type(memory: TrajectoryMemory) -> None:
    memory.remember(trajectory("a1", "a"), at_cosine(0.95))
    memory.remember(trajectory("b1", "b"), at_cosine(0.1))
    memory.remember(trajectory("a2", "a"), at_cosine(0.1, axis=2))
    memory.recall(QUERY)  # uses a1 alone
    assert memory.remember(trajectory("b2", "b"), at_cosine(0.2)) in {"b1", "a2"}
    assert "a1" in names(memory)


def test_eviction_of_unused_ones_takes_the_oldest_of_the_newcomers_type(memory: TrajectoryMemory) -> None:
    for name, task_type in (("a1", "a"), ("b1", "b"), ("a2", "a")):
        memory.remember(trajectory(name, task_type), at_cosine(0.1))
    assert memory.remember(trajectory("a3", "a"), at_cosine(0.2)) == "a1"
    assert names(memory) == ["b1", "a2", "a3"]


def test_a_newcomer_enters_even_when_all_others_were_used(memory: TrajectoryMemory) -> None:
    for name in ("a1", "a2", "a3"):
        memory.remember(trajectory(name), at_cosine(0.9))
    memory.recall(QUERY)
    assert memory.remember(trajectory("a4"), at_cosine(0.9)) == "a1"


@dataclass
class Model:
    """The eviction rule told naively, as an oracle."""

    capacity: int
    order: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)

    def remember(self, name: str, task_type: str) -> str | None:
        if name in self.order:
            return None
        evicted = None
        if len(self.order) == self.capacity:
            tally = Counter([*(self.types[n] for n in self.order), task_type])
            crowd = max(tally[self.types[n]] for n in self.order)
            crowded = [n for n in self.order if tally[self.types[n]] == crowd]
            fewest = min(self.uses[n] for n in crowded)
            evicted = next(n for n in crowded if self.uses[n] == fewest)
            self.order.remove(evicted)
            del self.uses[evicted]
        self.order.append(name)
        self.types[name] = task_type
        return evicted


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(1, 6),
    events=st.lists(
        st.one_of(
            st.tuples(st.just("remember"), st.integers(0, 12), st.sampled_from("abc")),
            st.tuples(st.just("recall"), st.integers(0, 12), st.just("")),
        ),
        max_size=40,
    ),
)
def test_eviction_agrees_with_the_rule(
    kind: IndexKind, capacity: int, events: list[tuple[str, int, str]]
) -> None:
    memory = build_memory(kind=kind, dimensions=16, capacity=capacity)
    model = Model(capacity)
    for what, number, task_type in events:
        vector_D = np.eye(16, dtype=np.float32)[number]
        if what == "recall":
            for recalled in memory.recall(vector_D):
                model.uses[recalled.trajectory.trajectory_id] += 1
        else:
            evicted = memory.remember(trajectory(str(number), task_type), vector_D)
            assert evicted == model.remember(str(number), task_type)
        assert len(memory) <= capacity
        assert names(memory) == model.order
        assert uses(memory) == {name: model.uses[name] for name in model.order}


def test_a_full_memory_keeps_types_balanced() -> None:
    memory = build_memory(kind="exact", dimensions=4, capacity=40)
    for i in range(400):
        # One type comes ten times as often as each other.
        task_type = "common" if i % 14 < 10 else f"rare {i % 14}"
        memory.remember(trajectory(str(i), task_type), at_cosine(0.5))
    counts = Counter(entry.trajectory.task_type for entry in memory)
    assert sum(counts.values()) == 40
    assert set(counts.values()) == {8}


def test_snapshot_restores_into_a_memory_that_behaves_the_same(memory: TrajectoryMemory) -> None:
    for i, cosine in enumerate((0.9, 0.8, 0.95)):
        memory.remember(trajectory(str(i), "ab"[i % 2]), at_cosine(cosine))
    memory.recall(QUERY)
    snapshot = pickle.loads(pickle.dumps(memory.snapshot()))
    resumed = build_memory(kind="exact", dimensions=4, capacity=3)
    resumed.remember(trajectory("gone"), at_cosine(0.99))
    resumed.restore(snapshot)
    assert resumed.snapshot() == memory.snapshot()
    assert "gone" not in [r.trajectory.trajectory_id for r in resumed.recall(QUERY)]
    memory.recall(QUERY)
    newcomer = trajectory("new", "a"), at_cosine(0.85)
    assert resumed.remember(*newcomer) == memory.remember(*newcomer)
    assert resumed.snapshot() == memory.snapshot()


def test_a_memory_survives_pickling(memory: TrajectoryMemory) -> None:
    memory.remember(trajectory("one"), at_cosine(0.9))
    copy = pickle.loads(pickle.dumps(memory))
    assert copy.recall(QUERY) == memory.recall(QUERY)
    assert copy.snapshot() == memory.snapshot()


@pytest.mark.parametrize(
    "vector_D",
    [
        np.array([2, 0, 0, 0], np.float32),
        np.zeros(4, np.float32),
        np.array([np.nan, 1, 0, 0], np.float32),
        np.array([np.inf, 0, 0, 0], np.float32),
        np.array([[1, 0, 0, 0]], np.float32),
        np.array([1, 0, 0], np.float32),
    ],
    ids=["long", "zero", "nan", "inf", "two axes", "three dimensions"],
)
def test_bad_vectors_are_refused_and_leave_the_memory_as_it_was(
    memory: TrajectoryMemory, vector_D: Vector
) -> None:
    for i in range(3):
        memory.remember(trajectory(str(i)), at_cosine(0.9))
    before = memory.snapshot()
    with pytest.raises(ValueError, match="'bad'"):
        memory.remember(trajectory("bad"), vector_D)
    with pytest.raises(ValueError, match=r"query|dimensions"):
        memory.recall(vector_D)
    assert memory.snapshot() == before
    assert memory.remember(trajectory("good"), at_cosine(0.9)) == "0"


@pytest.mark.parametrize("duration_s", [-1.0, float("nan"), float("inf")])
def test_a_duration_that_is_no_time_is_refused(memory: TrajectoryMemory, duration_s: float) -> None:
    with pytest.raises(ValueError, match="'bad' has a duration"):
        memory.remember(trajectory("bad", duration_s=duration_s), at_cosine(0.9))
    assert len(memory) == 0


def test_bad_snapshots_are_refused_and_change_nothing(memory: TrajectoryMemory) -> None:
    for i in range(3):
        memory.remember(trajectory(str(i)), at_cosine(0.9))
    before = memory.snapshot()
    entry = before.entries[0]
    shorter = replace(entry, vector=(1.0, 0.0), trajectory=trajectory("short"))
    for entries, message in (
        ((*before.entries, replace(entry, trajectory=trajectory("4"))), "capacity"),
        ((entry, entry), "more than once"),
        ((entry, shorter), "different dimensions"),
        ((shorter,), "dimensions"),
        ((replace(entry, vector=(2.0, 0.0, 0.0, 0.0)),), "'0'"),
        ((replace(entry, uses=-1),), "use count"),
    ):
        with pytest.raises(ValueError, match=message):
            memory.restore(MemorySnapshot(entries=entries))
        assert memory.snapshot() == before
        assert len(memory.recall(QUERY)) == 3
        before = memory.snapshot()


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="capacity"):
        build_memory(dimensions=4, capacity=0)
    with pytest.raises(ValueError, match="known: exact, faiss"):
        build_memory(kind="annoy", dimensions=4)  # type: ignore[arg-type]
