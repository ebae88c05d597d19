"""Agents sit beside their replicas, on the GPUs they asked for: on a cluster whose GPUs are only claimed."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray._private.state import actors
from ray.cluster_utils import Cluster as ManyNodes
from ray.util.placement_group import placement_group_table

from actors.cluster import placement
from actors.cluster.ray_connection import ROOT
from actors.cluster.ray_runtime import RayCluster
from actors.cluster.ray_settings import RaySettings
from actors.errors import ClusterError
from tests.actors.plans import eventually, make_plan, run_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PLAN = make_plan(3, tensor_parallel=(2, 1, 4))


@pytest.fixture(scope="module")
def nodes(rays_leftovers: None) -> Iterator[ManyNodes]:
    """A head that offers no CPUs, and two nodes of four GPUs each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        store = {"object_store_memory": 100 << 20, "include_dashboard": False}
        many = ManyNodes(initialize_head=True, head_node_args={"num_cpus": 0, **store})
        try:
            for _ in range(2):
                many.add_node(num_cpus=2, num_gpus=4, object_store_memory=100 << 20)
            environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
            ray.init(address=many.address, log_to_driver=False, runtime_env=environment)
            yield many
        finally:
            ray.shutdown()
            many.shutdown()


@pytest.fixture(autouse=True)
def _simulated_models_ask_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "GPU_BACKENDS", frozenset({"simulated"}))
    monkeypatch.setattr(placement, "GPU_ENCODERS", frozenset({"hashing"}))


def names(namespace: str) -> list[str]:
    named = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in named if actor["namespace"] == namespace]


def where(namespace: str) -> dict[str, str]:
    """Node of each actor of a run, by name."""
    table = actors()
    handles = {name: ray.get_actor(name, namespace=namespace) for name in names(namespace)}
    return {name: table[handle._actor_id.hex()]["Address"]["NodeID"] for name, handle in handles.items()}


def test_agent_and_replica_share_a_bundle_sized_by_its_parallelism(nodes: ManyNodes) -> None:
    # On one host, Ray connects a driver to any of its nodes, not always to the head.
    drivers_node = ray.get_runtime_context().get_node_id()

    async def use() -> tuple[dict[str, str], list[dict[str, float]], float]:
        cluster = RayCluster(PLAN, RaySettings())
        try:
            await cluster.start()
            ran = await run_all(cluster, PLAN, 30)
            assert len(ran.finished) == 30
            tables: list[dict[str, Any]] = list(placement_group_table().values())
            mine = sorted(
                (t for t in tables if t["name"].startswith(cluster.namespace)), key=lambda t: t["name"]
            )
            assert all(list(table["bundles"]) == [0] for table in mine)
            return (
                where(cluster.namespace),
                [t["bundles"][0] for t in mine],
                ray.available_resources().get("GPU", 0),
            )
        finally:
            await cluster.close()

    node_of, bundles, gpus_left = asyncio.run(use())
    assert bundles == [{"CPU": 0.1, "GPU": gpus} for gpus in (2, 1, 4)]
    assert all(node_of[name] == node_of[f"{name}-replica"] for name in ("a1", "a2", "a3"))
    assert node_of["a1"] == node_of["a2"] != node_of["a3"]  # four GPUs of one node are one bundle
    assert gpus_left == 0, "seven for the replicas, the eighth for the encoder"
    head = nodes.head_node.node_id
    assert head not in {node for name, node in node_of.items() if name != "intake"}
    assert node_of["intake"] == drivers_node, "beside its driver"


def test_a_plan_without_room_says_what_it_asked_and_leaves_nothing(nodes: ManyNodes) -> None:
    assert asyncio.run(eventually(lambda: ray.available_resources().get("GPU") == 8))
    cluster = RayCluster(make_plan(3, tensor_parallel=(4, 3, 4)), RaySettings(placement_timeout_s=2.0))

    async def start() -> None:
        with pytest.raises(
            ClusterError, match=r"no room for a\d.* 0.3 CPU, 11 GPU together.*has 4 CPU, 8 GPU"
        ):
            await cluster.start()

    asyncio.run(start())
    assert asyncio.run(eventually(lambda: ray.available_resources().get("GPU") == 8))
    assert names(cluster.namespace) == []
