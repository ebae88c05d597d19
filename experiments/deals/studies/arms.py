"""The rows of every comparison: each an arm, which is a name and the settings that make it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

PAPER_WEIGHTS = (0, 5, 10, 20, 40, 80)
"""The paper names runs at V = 0, 20 and 80; the others fill the sweep."""
DEFAULT_WEIGHT = 40
"""V of our router, in mean step times; chosen on the tuning half (`deals-router --half tune`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A row: the same pool, tasks and seeds under other settings."""

    name: str
    changes: tuple[str, ...] = ()
    """Assignments as `--set` takes them."""
    copies: int = 1
    """How many answers each task gets, the plurality of which counts."""
    at: int | None = None
    """The agent that gives all of them; None: one each by the first agents."""
    most_seeds: int | None = None
    """An arm that only illustrates may do with fewer seeds than the study."""
    knows_rates: bool = False
    """Whether agents start with the true success rates of each type in place of a warm-up."""


def mechanism(**values: object) -> tuple[str, ...]:
    """Assignments of routing settings."""
    return tuple(f"pool.settings.mechanism.{key}={_text(value)}" for key, value in values.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def deals(weight: float) -> Arm:
    """The paper's rule."""
    return Arm(name=f"DEALS V={weight:g}", changes=mechanism(policy="deals", quality_weight=weight))


def router(
    name: str = "",
    *,
    weight: float = DEFAULT_WEIGHT,
    online: bool = True,
    parts: Mapping[str, object] = MappingProxyType({}),
) -> Arm:
    """Our router; `parts` are routing settings that switch parts of it off, or others on."""
    values: dict[str, object] = {
        "policy": "drain_time",
        "quality_weight": weight,
        "margin": 0,
        "pull": True,
        "forwards_hold_slots": False,
        "count_in_flight": True,
        "queue_order": "oldest",
        "warmup_policy": "least_tried",
    }
    return Arm(
        name=name or f"our router V={weight:g}" + ("" if online else ", frozen"),
        changes=(
            *mechanism(**(values | dict(parts))),
            f"online={_text(online)}",
        ),
    )


def single(agent: int, name: str) -> Arm:
    """One agent alone: every task enters there and stays."""
    return Arm(name=f"{name} alone", changes=(*mechanism(policy="keep"), f"ingress={agent}"))


SEQUENTIAL, CONCURRENT = "AgentNet sequential", "AgentNet concurrent"


def agentnet() -> list[Arm]:
    """AgentNet (arXiv 2504.00587): the model routes, one task after the other as published, and on all slots."""
    changes = (*mechanism(policy="keep"), "ingress=best_ability", "pool.settings.executor.kind=agentnet")
    return [
        Arm(name=SEQUENTIAL, changes=(*changes, "arrivals.kind=closed")),
        Arm(name=CONCURRENT, changes=changes),
    ]


def self_consistency(agent: int, name: str, samples: int = 5) -> Arm:
    """The plurality of several samples of one model (Wang et al. 2022, arXiv 2203.11171): only of models that are
    really sampled."""
    sampled = ("pool.settings.executor.temperature=0.7", "pool.settings.executor.seed_by_task=true")
    return Arm(
        name=f"self-consistency of {samples}, {name}",
        changes=(*mechanism(policy="keep"), *sampled),
        copies=samples,
        at=agent,
    )


def baselines(agents: Sequence[str]) -> list[Arm]:
    """Every row that is neither DEALS nor ours."""
    placed = ("random", "round_robin", "join_shortest", "power_of_two")
    at_once = {"route_on_arrival": True, "count_in_flight": True, "forwards_hold_slots": False}
    return [
        *(single(position, name) for position, name in enumerate(agents)),
        *(
            Arm(name=policy.replace("_", " "), changes=mechanism(policy=policy, **at_once))
            for policy in placed
        ),
        Arm(name="best quality only", changes=mechanism(policy="best_quality")),
        Arm(
            name=f"majority vote of {len(agents)}",
            changes=mechanism(policy="keep"),
            copies=len(agents),
        ),
    ]
