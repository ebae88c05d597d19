"""Which step machines there are. Pure."""

from collections.abc import Mapping

from actors.steps.deliberate import deliberate
from actors.steps.direct import direct
from actors.steps.moves import StepMachine

STEP_MACHINES: Mapping[str, StepMachine] = {"deliberate": deliberate, "direct": direct}
