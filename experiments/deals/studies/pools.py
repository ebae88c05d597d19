"""The pools that studies run on: shipped ones, a user's own, and what can be said of them beforehand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from actors.errors import SettingsError
from experiments.settings import PoolAgent, PoolSettings, checked, load_pool
from serving.simulated import SimulatedOptions

FOLDER = Path(__file__).parents[1] / "pools"
StudyBackend = Literal["replay", "simulated", "vllm"]
"""vllm stands for all real engines."""
VIRTUAL: Mapping[str, StudyBackend] = {"replay": "replay", "simulated": "simulated"}
FORWARD_RATE = 0.3
"""Share of AgentNet's router calls that forward, where no model is there to decide."""
_TIMES = frozenset({"service_s", "service_s_by_purpose", "slowdown_exponent"})
_CALLS: Mapping[str, tuple[str, ...]] = {
    "direct": ("direct",),
    "deliberate": ("action", "thought", "execute", "answer"),
    "agentnet": ("router", "thought", "execute", "answer"),
}
"""What one undivided task asks of a model."""


def pool(name: str) -> dict[str, Any]:
    """The raw content of a shipped pool file."""
    return load_pool(FOLDER / f"{name}.yaml")


def agent_names(raw: Mapping[str, Any]) -> list[str]:
    return [agent["name"] for agent in raw["agents"]]


def repeated(raw: dict[str, Any], agents: int) -> dict[str, Any]:
    """A pool of any size: the given agents in turn, each with its own name and luck."""
    kinds = raw["agents"]
    chosen = [kinds[position % len(kinds)] | {"name": f"a{position + 1}"} for position in range(agents)]
    return raw | {"agents": chosen}


def routing_by_chance(raw: dict[str, Any]) -> dict[str, Any]:
    """Replayed models know no neighbours: where AgentNet asks them whom to forward to, they answer by chance."""

    def asked(agent: dict[str, Any]) -> dict[str, Any]:
        backend = agent["backend"]
        if backend["kind"] != "replay":
            return agent
        options = {"forward_rate": FORWARD_RATE} | backend.get("options", {})
        return agent | {"backend": backend | {"options": options}}

    return raw | {"agents": [asked(agent) for agent in raw["agents"]]}


def backend_of(raws: Sequence[Mapping[str, Any]]) -> StudyBackend:
    """What answers in these pools. Raises SettingsError for one that is no pool, and for a mixture: nothing could
    be compared in it."""
    kinds = {agent.backend.kind for raw in raws for agent in _checked(raw).agents}
    found: set[StudyBackend] = {VIRTUAL.get(kind, "vllm") for kind in kinds}
    if len(found) > 1:
        raise SettingsError(
            f"the agents of a study are all recorded, all simulated, or all real; these are {', '.join(sorted(kinds))}"
        )
    return found.pop()


def capacity_per_s(raw: Mapping[str, Any]) -> float:
    """Undivided tasks a second that a pool of simulated or replayed models serves with all slots busy."""
    checked_pool = _checked(raw)
    total = 0.0
    for agent in checked_pool.agents:
        options = _options(agent, checked_pool.name)
        task_s = sum(
            options.service_s_by_purpose.get(purpose, options.service_s)
            for purpose in _CALLS[checked_pool.settings.executor.kind]
        )
        if not task_s:
            raise SettingsError(
                f"agent {agent.name!r} of pool {checked_pool.name!r} takes no time: set service_s"
            )
        total += agent.slots ** (1 - options.slowdown_exponent) / task_s
    return total


def _options(agent: PoolAgent, pool_name: str) -> SimulatedOptions:
    times = {key: value for key, value in agent.backend.options.items() if key in _TIMES}
    try:
        return SimulatedOptions.model_validate(times)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SettingsError(f"agent {agent.name!r} of pool {pool_name!r}: {wrong}") from None


def _checked(raw: Mapping[str, Any]) -> PoolSettings:
    return checked({"experiment": "study", "pool": raw}, f"pool {raw.get('name', '(without a name)')}").pool
