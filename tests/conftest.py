"""What holds for all tests."""

import gc
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest


def _no_ray(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a unit test must not start Ray; mark the test slow if it has to")


@pytest.fixture(autouse=True)
def _ray_only_in_slow_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = sys.modules.get("ray")
    if ray is not None and request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(ray, "init", _no_ray)


@pytest.fixture(scope="module")
def rays_leftovers() -> Iterator[None]:
    """Ray does not close every socket it opens. They go while the tests that started it still look away, so
    that no other test is blamed for them."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def local_ray(rays_leftovers: None) -> Iterator[None]:
    """A Ray of this module's own, without a dashboard. For slow tests."""
    from actors.cluster.ray_connection import connect, disconnect
    from actors.cluster.ray_settings import RaySettings

    connection = connect(RaySettings(include_dashboard=False), local_cpus=4)
    yield
    disconnect(connection)
