"""cluster.yaml, as far as it can be checked without a cloud."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from actors.cluster.ray_settings import RaySettings

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """With Ray's defaults filled in, as `ray up` takes it."""
    prepared: dict[str, Any] = prepare_config(yaml.safe_load((ROOT / "cluster.yaml").read_text()))
    return prepared


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return settings


def started_with(config: dict[str, Any]) -> dict[str, str]:
    """The `ray start` command of either kind of node."""
    return {kind: config[f"{kind}_start_ray_commands"][-1] for kind in ("head", "worker")}


def test_ray_accepts_the_file(config: dict[str, Any]) -> None:
    validate_config(config)


def test_validation_notices_a_mistake(config: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="max_wrokers"):
        validate_config(config | {"max_wrokers": 3})


def test_no_replica_and_so_no_agent_fits_on_the_head(config: dict[str, Any]) -> None:
    head = config["available_node_types"][config["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert "--num-cpus=0" in started_with(config)["head"]
    assert RaySettings().replica_cpus > 0


def test_gpu_workers_come_and_go_within_bounds(config: dict[str, Any]) -> None:
    kinds = dict(config["available_node_types"])
    del kinds[config["head_node_type"]]
    (worker,) = kinds.values()
    assert worker["resources"]["GPU"] > 0
    assert 1 <= worker["min_workers"] <= worker["max_workers"] <= config["max_workers"]


def test_images_carry_the_pinned_ray_and_python(config: dict[str, Any], project: dict[str, Any]) -> None:
    (pinned,) = (
        re.findall(r"ray\[.*\]==([\d.]+)", line) for line in project["dependencies"] if "ray[" in line
    )
    for image in (config["docker"]["head_image"], config["docker"]["worker_image"]):
        assert image.startswith(f"rayproject/ray:{pinned[0]}-py311-")
    assert config["docker"]["worker_image"].endswith("-gpu")


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_every_node_wants_the_token_and_shows_its_metrics(config: dict[str, Any], kind: str) -> None:
    command = started_with(config)[kind]
    assert "RAY_AUTH_MODE=token ray start" in command
    assert "--metrics-export-port=8080" in command
    assert "--env RAY_AUTH_MODE=token" in config["docker"]["run_options"]
    assert "/home/ray/.ray/auth_token" in config["file_mounts"]


def test_nodes_install_what_the_checkout_pins(config: dict[str, Any], project: dict[str, Any]) -> None:
    assert (ROOT / config["file_mounts"]["/home/ray/tradewinds/pyproject.toml"]).is_file()
    extras = re.findall(r"--extra (\w+)", " ".join(config["worker_setup_commands"]))
    assert extras == ["gpu"]
    assert any(line.startswith("vllm==") for line in project["optional-dependencies"]["gpu"])
    (uv,) = re.findall(r"uv==([\d.]+)", (ROOT / ".ci/setup").read_text())
    assert f"uv=={uv}" in " ".join(config["worker_setup_commands"])
