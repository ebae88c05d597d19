"""Which step machines there are. Pure."""

from collections.abc import Mapping

from actors.steps.agentnet import agentnet
from actors.steps.deliberate import deliberate
from actors.steps.direct import direct
from actors.steps.moves import StepMachine

STEP_MACHINES: Mapping[str, StepMachine] = {"deliberate": deliberate, "direct": direct, "agentnet": agentnet}
ROUTING_MACHINES = frozenset({"agentnet"})
"""Those that may hand a task on by themselves: they are told of their surroundings."""
