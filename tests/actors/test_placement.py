"""What a plan asks of a cluster."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from actors.cluster import placement
from actors.cluster.placement import HostPlacement, encoder_gpus, largest_first, place, shortfall
from actors.cluster.plan import Plan
from serving.api import EncoderSpec
from tests.actors.plans import make_plan


def on_engines(plan: Plan) -> Plan:
    """The same plan with models that can use GPUs."""
    agents = [replace(agent, backend=replace(agent.backend, kind="vllm_engine")) for agent in plan.agents]
    return replace(plan, agents=tuple(agents))


def bundles(placements: Sequence[HostPlacement]) -> list[dict[str, float]]:
    return [each.bundle for each in placements]


def test_each_agent_has_a_bundle_of_its_replicas_parallelism() -> None:
    placements = place(on_engines(make_plan(tensor_parallel=(2, 1, 4))), replica_cpus=0.1, with_gpus=True)
    assert [each.name for each in placements] == ["a1", "a2", "a3"]
    assert bundles(placements) == [{"CPU": 0.1, "GPU": gpus} for gpus in (2, 1, 4)]


def test_agents_of_one_host_share_its_bundle() -> None:
    plan = on_engines(make_plan(tensor_parallel=(2, 1, 4), agents_per_actor=2))
    placements = place(plan, replica_cpus=0.25, with_gpus=True)
    assert [each.name for each in placements] == ["a1..a2", "a3"]
    assert bundles(placements) == [{"CPU": 0.5, "GPU": 3}, {"CPU": 0.25, "GPU": 4}]
    assert placements[0].gpus == {"a1": 2, "a2": 1}


def test_without_gpus_nobody_asks_for_any() -> None:
    placements = place(on_engines(make_plan(tensor_parallel=(2, 1, 4))), replica_cpus=0.1, with_gpus=False)
    assert bundles(placements) == [{"CPU": 0.1}] * 3


def test_models_elsewhere_take_no_gpu_from_a_cluster_that_has_some() -> None:
    assert bundles(place(make_plan(), replica_cpus=0.1, with_gpus=True)) == [{"CPU": 0.1}] * 3


def test_large_bundles_are_reserved_before_small_ones_and_else_in_order() -> None:
    plan = on_engines(make_plan(5, tensor_parallel=(1, 2, 1, 4, 2)))
    placements = largest_first(place(plan, replica_cpus=0.1, with_gpus=True))
    assert [each.name for each in placements] == ["a4", "a2", "a5", "a1", "a3"]


def test_sums_of_small_shares_are_amounts_that_ray_accepts() -> None:
    (host,) = place(make_plan(3, agents_per_actor=3), replica_cpus=0.1, with_gpus=False)
    assert host.bundle == {"CPU": 0.3}  # not 0.30000000000000004


@pytest.mark.parametrize(("has", "gets"), [(8, 1), (7, 0), (0, 0)])
def test_the_encoder_takes_a_gpu_that_the_replicas_leave(has: int, gets: int) -> None:
    placements = place(on_engines(make_plan(tensor_parallel=(2, 1, 4))), replica_cpus=0.1, with_gpus=True)
    assert encoder_gpus(EncoderSpec(kind="sentence_transformers"), placements, has) == gets


def test_an_encoder_without_a_model_needs_no_gpu() -> None:
    assert "hashing" not in placement.GPU_ENCODERS
    assert encoder_gpus(EncoderSpec(kind="hashing"), [], 8) == 0


def test_a_shortfall_says_who_waits_what_was_asked_and_what_there_is() -> None:
    placements = place(on_engines(make_plan(tensor_parallel=(2, 1, 4))), replica_cpus=0.1, with_gpus=True)
    said = shortfall(placements[1:], placements, {"CPU": 4.0, "GPU": 2.0, "memory": 1e9})
    assert "no room for a2, a3" in said
    assert "3 bundle(s) ask for 0.3 CPU, 7 GPU together" in said
    assert "has 4 CPU, 2 GPU" in said
