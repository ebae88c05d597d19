"""Which experiments there are. Each stands in the folder of its paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.errors import SettingsError

COUNTERFACTUAL = "deals-counterfactual"
"""Not a run of its own: it lives a recorded one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named set of defaults; every one of them can be overridden on the command line."""

    name: str
    summary: str
    """One line, for `list`."""
    pool: Path
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Of `RunSettings`, without experiment and pool."""
    weights: tuple[float, ...] = ()
    """Values of V to test one after the other on the same agents; empty: the pool file's."""
    changes: tuple[str, ...] = ()
    """Assignments over the pool file, as `--set` takes them."""


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    from experiments.deals.experiment import EXPERIMENTS

    return {experiment.name: experiment for experiment in EXPERIMENTS}


def find(name: str) -> Experiment:
    """Raises SettingsError listing what `run` takes."""
    known = experiments()
    if name not in known:
        from experiments.deals.studies.catalogue import STUDIES

        raise SettingsError(
            f"no experiment {name!r}; known: {', '.join(sorted(known))}; studies: "
            f"{', '.join(sorted([*STUDIES, COUNTERFACTUAL]))}"
        )
    return known[name]
