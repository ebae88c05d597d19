"""Recorded verdicts as a model: right exactly where a real model was. No weights, no GPU, real differences."""

from collections.abc import Mapping

from pydantic import Field

from serving.errors import FinalServingError
from serving.simulated import SimulatedModel, SimulatedOptions


class ReplayOptions(SimulatedOptions):
    """Settings of one recorded model: what a simulated one takes, with verdicts in place of success rates."""

    verdicts: Mapping[str, bool] = Field(default_factory=dict)
    """Whether the model answered rightly, by task id."""


class ReplayModel(SimulatedModel):
    """A `SimulatedModel` whose answers are as right or wrong as those that a real model gave. What it says when
    it is wrong, and how long it takes, are simulated."""

    def __init__(self, model: str, options: ReplayOptions) -> None:
        super().__init__(model, options)
        self._verdicts = options.verdicts

    def succeeds(self, task_id: str, task_type: str) -> bool:
        """The recorded verdict. Raises FinalServingError where there is none."""
        try:
            return self._verdicts[task_id]
        except KeyError:
            raise FinalServingError(
                f"no recorded verdict of {self._model} on task {task_id!r} of type {task_type!r}: use the data set "
                f"that the verdicts were recorded on"
            ) from None
