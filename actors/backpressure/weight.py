"""The quality weight V of one agent, where it follows a latency target. Pure."""

import math

SMOOTHING = 0.05
"""Weight of the newest latency in the mean."""
GAIN = 0.1
"""How fast V follows: relative change for a latency that is off by its target."""
LOWEST = 1e-3
"""V never falls below this share of the phase's: it could not come back from nothing."""


class QualityWeight:
    """V of the phase, or less: where a target is set, V shrinks while tasks that end here took longer, and grows
    again while they took less. Integral control with a multiplicative step; in drift-plus-penalty terms V trades
    a gap of order 1/V from the best quality for a backlog of order V (Neely 2010)."""

    def __init__(self, target_s: float | None) -> None:
        self._target_s = target_s
        self._mean_s: float | None = None
        self._share = 1.0

    def of(self, phase_weight: float) -> float:
        """V to decide with; `phase_weight` is the phase's."""
        return phase_weight * self._share

    def ended(self, age_s: float, phase_weight: float) -> None:
        """A task ended here, `age_s` after its acceptance."""
        if self._target_s is None or phase_weight == 0:
            return
        mean_s = age_s if self._mean_s is None else self._mean_s
        self._mean_s = mean_s + SMOOTHING * (age_s - mean_s)
        error = max(-1.0, min(1.0, 1 - self._mean_s / self._target_s))
        self._share = min(1.0, max(LOWEST, self._share * math.exp(GAIN * error)))
