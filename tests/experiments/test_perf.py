"""The benchmarks compare what is the same, and their targets read as they should."""

import asyncio
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from actors.cluster.api import Cluster
from actors.cluster.local import LocalCluster
from actors.config import ExecutorSettings
from experiments.perf import calls, simulation
from experiments.perf.core import Life, Pool
from experiments.perf.figures import Figure, figure, interleaved_us, show
from experiments.perf.plain_loop import best_per_type
from experiments.perf.runtime import driver_cpu_us, latency_ms, throughput, with_cluster
from serving.api import BackendSpec
from serving.build import build_backend


@given(degree=st.integers(1, 40), seed=st.integers(0, 999))
def test_kernel_and_plain_loop_choose_identically(degree: int, seed: int) -> None:
    """Bit for bit, the score included."""
    pool = Pool(degree, seed)
    best_T, score_T = pool.kernel()
    assert list(zip(best_T, score_T, strict=True)) == pool.loop()


def test_both_give_ties_to_the_smallest_column() -> None:
    assert best_per_type([3.0], [0.5], [[1.0, 1.0, 2.0]], [[0.5, 0.5, 0.5]], 20.0) == [(0, 2.0)]


def test_rounds_of_the_handle_benchmark_leave_nothing_behind() -> None:
    """`Life` asserts it itself; every kind of round follows every other."""
    life = Life(degree=3)
    for _ in range(2):
        assert min(life.kept_us(5), life.forwarded_us(5), life.heard_us(5)) > 0


def test_a_median_is_held_against_its_target_from_the_right_side() -> None:
    assert figure("f", [3.0, 1.0, 9.0], "us").value == 3.0
    assert figure("f", [1.0], "us").met is None
    assert figure("f", [2.0], "us", target=2.0).met is True
    assert figure("f", [2.1], "us", target=2.0).met is False
    assert figure("f", [2.1], "1/s", target=2.0, better="higher").met is True
    assert figure("f", [1.9], "1/s", target=2.0, better="higher").met is False


def test_arms_take_turns() -> None:
    turns: list[str] = []
    samples = interleaved_us(
        [lambda: turns.append("a"), lambda: turns.append("b")], repeats=3, repeat_s=0.0001
    )
    assert [len(mine) for mine in samples] == [3, 3]
    changes = sum(turns[n] != turns[n - 1] for n in range(1, len(turns)))
    assert changes == 7, "a b (warm-up), then a b a b a b"


def test_each_figure_is_one_json_line_and_one_row() -> None:
    out = io.StringIO()
    show([figure("f", [1.0, 2.0, 3.0], "us", target=1.5)], "title", Console(file=out, width=120))
    line = json.loads(out.getvalue().splitlines()[0])
    assert (line["name"], line["value"], line["met"]) == ("f", 2.0, False)
    assert "NOT MET" in out.getvalue()


def test_a_closed_load_measures_a_plan_and_leaves_nothing_under_way() -> None:
    """3 agents x 9 slots x 0.05 s: at most 540 tasks/s can be done."""

    async def use(cluster: Cluster) -> list[Figure]:
        rate = await throughput(cluster, under_way=54, ramp_s=0.2, window_s=0.5)
        assert 100 < rate <= 540 * 1.2
        assert await driver_cpu_us(cluster, tasks=60) > 0
        assert await latency_ms(cluster, tasks=3) >= 50
        assert [s.holding for s in await cluster.snapshots()] == [()] * 3
        return []

    asyncio.run(with_cluster(LocalCluster, 0.05, use))


@pytest.mark.slow
def test_the_kernel_decides_for_14_types_and_100_neighbours_in_20_us() -> None:
    """The best of several samples: what else runs on the machine is not the kernel's fault."""
    (samples,) = interleaved_us([Pool(100).kernel])
    assert min(samples) <= 20.0


def test_the_slowdown_of_calls_is_fitted_through_one() -> None:
    durations_s = {n: {"answer": [2.0 * n**0.5] * 3, "execute": [4.0 * n**0.5]} for n in (1, 3, 9)}
    slowdowns = {n: calls.slowdown(durations_s, n) for n in (1, 3, 9)}
    assert slowdowns == pytest.approx({1: 1.0, 3: 3**0.5, 9: 3.0})
    assert calls.exponent(slowdowns) == pytest.approx(0.5)


def test_the_spread_of_calls_is_taken_around_the_mean_of_their_like() -> None:
    like = [1.0, 2.0, 3.0]
    durations_s = {n: {"answer": [n * t for t in like], "router": [0.1 * t for t in like]} for n in (1, 3, 9)}
    found = calls.shape(durations_s)
    assert len(found) == calls.QUANTILES
    assert (found[0], found[-1]) == pytest.approx((0.5, 1.5))
    assert sum(found) / len(found) == pytest.approx(1.0, abs=0.01)


def test_call_times_of_a_model_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated model of 10 ms a call that slows down with the square root of the calls beside it."""
    monkeypatch.setattr(calls, "TASKS", {1: 3, 3: 9, 9: 27})
    options = {"service_s": 0.02, "slowdown_exponent": 0.5}
    backend = build_backend(BackendSpec(kind="simulated", model="m", options=options))
    found = asyncio.run(calls.measure(backend, ExecutorSettings()))
    assert set(found[1]) == {"router", "thought", "execute", "answer"}
    slowdowns = {n: calls.slowdown(found, n) for n in (1, 3, 9)}
    assert calls.exponent(slowdowns) == pytest.approx(0.5, abs=0.2)


def test_a_small_simulated_stream_loses_nothing() -> None:
    passed = simulation.run(20, 300)
    assert passed.finished == 300
    assert passed.events > 3 * 300
    assert passed.forwards > 0
