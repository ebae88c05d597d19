"""One contract for every Index; FAISS is compared with the exact one."""

import pickle
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.api import Index, Vector
from retrieval.exact_index import ExactIndex
from retrieval.faiss_index import FaissIndex

DIMENSIONS = 6


@pytest.fixture(params=[ExactIndex, FaissIndex])
def make_index(request: pytest.FixtureRequest) -> Callable[[int], Index]:
    make: Callable[[int], Index] = request.param
    return make


def unit(seed: int, dimensions: int = DIMENSIONS) -> Vector:
    vector_D = np.random.default_rng(seed).normal(size=dimensions)
    return (vector_D / np.linalg.norm(vector_D)).astype(np.float32)


def test_search_returns_cosines_best_first(make_index: Callable[[int], Index]) -> None:
    index = make_index(3)
    index.add(7, np.array([1, 0, 0], np.float32))
    index.add(3, np.array([0.6, 0.8, 0], np.float32))
    index.add(9, np.array([0, 0, 1], np.float32))
    found = index.search(np.array([0, 1, 0], np.float32), 2)
    assert [vector_id for vector_id, _ in found] == [3, 7]
    assert [cosine for _, cosine in found] == pytest.approx([0.8, 0.0])


@pytest.mark.parametrize("dimensions", [6, 384])
def test_equal_cosines_come_in_id_order_even_at_the_cut(
    make_index: Callable[[int], Index], dimensions: int
) -> None:
    index = make_index(dimensions)
    for vector_id in (5, 2, 11, 1, 8, 3, 4, 10, 6):
        index.add(vector_id, unit(0, dimensions))
    assert [vector_id for vector_id, _ in index.search(unit(1, dimensions), 4)] == [1, 2, 3, 4]


def test_a_removed_vector_is_not_found_and_its_id_is_free_again(make_index: Callable[[int], Index]) -> None:
    index = make_index(DIMENSIONS)
    index.add(1, unit(1))
    index.add(2, unit(2))
    index.remove(1)
    assert len(index) == 1
    assert [vector_id for vector_id, _ in index.search(unit(1), 5)] == [2]
    index.add(1, unit(3))
    nearest, cosine = index.search(unit(3), 1)[0]
    assert nearest == 1
    assert cosine == pytest.approx(1.0)


def test_errors_name_the_id_or_the_shape(make_index: Callable[[int], Index]) -> None:
    index = make_index(DIMENSIONS)
    index.add(1, unit(1))
    with pytest.raises(ValueError, match="id 1 "):
        index.add(1, unit(2))
    with pytest.raises(KeyError, match="id 4 "):
        index.remove(4)
    with pytest.raises(ValueError, match=rf"\({DIMENSIONS},\)"):
        index.add(2, unit(1, DIMENSIONS + 1))
    with pytest.raises(ValueError, match=rf"\({DIMENSIONS},\)"):
        index.search(unit(1, DIMENSIONS + 1), 1)
    with pytest.raises(ValueError, match="dimension"):
        make_index(0)
    assert len(index) == 1


def test_an_empty_index_and_a_limit_of_zero_find_nothing(make_index: Callable[[int], Index]) -> None:
    index = make_index(DIMENSIONS)
    assert index.search(unit(1), 3) == []
    index.add(1, unit(1))
    assert index.search(unit(1), 0) == []


def test_changing_the_callers_array_later_changes_nothing(make_index: Callable[[int], Index]) -> None:
    index = make_index(DIMENSIONS)
    vector_D = unit(1)
    index.add(1, vector_D)
    vector_D[:] = 0
    assert index.search(unit(1), 1)[0][1] == pytest.approx(1.0)


def test_an_index_survives_pickling(make_index: Callable[[int], Index]) -> None:
    index = make_index(DIMENSIONS)
    for vector_id in range(5):
        index.add(vector_id, unit(vector_id))
    index.remove(2)
    copy = pickle.loads(pickle.dumps(index))
    assert copy.search(unit(9), 5) == index.search(unit(9), 5)
    copy.add(2, unit(2))
    assert (len(copy), len(index)) == (5, 4)


operations = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 12), st.integers(0, 30)), max_size=40
)


@settings(max_examples=150, deadline=None)
@given(operations=operations, query_seed=st.integers(0, 1000), limit=st.integers(0, 15))
def test_faiss_agrees_with_exact(operations: list[tuple[str, int, int]], query_seed: int, limit: int) -> None:
    exact, faiss = ExactIndex(DIMENSIONS), FaissIndex(DIMENSIONS)
    for operation, vector_id, seed in operations:
        outcomes = []
        for index in (exact, faiss):
            try:
                if operation == "add":
                    index.add(vector_id, unit(seed))
                else:
                    index.remove(vector_id)
                outcomes.append("done")
            except (ValueError, KeyError) as error:
                outcomes.append(type(error).__name__)
        assert outcomes[0] == outcomes[1]
    assert len(exact) == len(faiss)
    expected = exact.search(unit(query_seed), limit)
    found = faiss.search(unit(query_seed), limit)
    assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-5)
    # Sums in another order may swap neighbours that differ in the last bits, so ids are compared by cosine.
    cosines = dict(exact.search(unit(query_seed), len(exact)))
    assert [cosines[i] for i, _ in found] == pytest.approx([cosines[i] for i, _ in expected], abs=1e-5)
    assert len({i for i, _ in found}) == len(found)


def test_only_the_faiss_index_loads_faiss() -> None:
    code = (
        "import sys, retrieval.build, retrieval.memory, retrieval.exact_index\n"
        "retrieval.build.build_memory(kind='exact', dimensions=3)\n"
        "assert 'faiss' not in sys.modules\n"
        "retrieval.build.build_memory(kind='faiss', dimensions=3)\n"
        "assert 'faiss' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
