"""What a pool of specialists could reach: each type to the agent that is best at it, as measured once."""

import json
from collections.abc import Sequence

from experiments.record import StreamTask
from experiments.settings import RunSettings
from serving.models import SPECIALISTS, shipped_specialist


def measured_accuracy(model: str) -> dict[str, float] | None:
    """Share of fresh problems that a specialist answers rightly, by family; None for any other model."""
    name = model.removeprefix("specialist-")
    if name == model or name not in SPECIALISTS:
        return None
    made = json.loads((shipped_specialist(name) / "training.json").read_text())
    return {family: found["right"] / found["of"] for family, found in made.get("accuracy", {}).items()}


def oracle_line(settings: RunSettings, tasks: Sequence[StreamTask]) -> str | None:
    """One sentence on the oracle assignment; None where the pool or the data set has none."""
    known = [
        found
        for agent in settings.pool.agents
        if (found := measured_accuracy(agent.backend.model)) is not None
    ]
    types = [task.row.task_type for task in tasks if task.phase == "test"]
    if settings.dataset.name != "families" or not known or not types:
        return None
    best = [max(found.get(name, 0.0) for found in known) for name in types]
    return (
        f"oracle assignment (each type to its best specialist, by the accuracies in their training.json): "
        f"{100 * sum(best) / len(best):.1f} %"
    )
