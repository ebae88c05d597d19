"""The pools that studies run on, by backend."""

from pathlib import Path
from typing import Any

from experiments.settings import load_pool

FOLDER = Path(__file__).parents[1] / "pools"


def pool(name: str) -> dict[str, Any]:
    """The raw content of a shipped pool file."""
    return load_pool(FOLDER / f"{name}.yaml")


def agent_names(raw: dict[str, Any]) -> list[str]:
    return [agent["name"] for agent in raw["agents"]]


def repeated(raw: dict[str, Any], agents: int) -> dict[str, Any]:
    """A pool of any size: the given agents in turn, each with its own name and luck."""
    kinds = raw["agents"]
    chosen = [kinds[position % len(kinds)] | {"name": f"a{position + 1}"} for position in range(agents)]
    return raw | {"agents": chosen}
