"""Which step machines there are. Pure."""

from collections.abc import Mapping
from functools import cache

from actors.config import ExecutorSettings
from actors.steps.agentnet import agentnet
from actors.steps.deliberate import deliberate
from actors.steps.direct import direct
from actors.steps.moves import StepMachine

STEP_MACHINES: Mapping[str, StepMachine] = {"deliberate": deliberate, "direct": direct, "agentnet": agentnet}
ROUTING_MACHINES = frozenset({"agentnet"})
"""Those that may hand a task on by themselves: they are told of their surroundings."""


@cache
def without_splits(executor: ExecutorSettings) -> ExecutorSettings:
    """The same settings for a step that may not split its task."""
    return executor.model_copy(update={"max_splits": 0})
