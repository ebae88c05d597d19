"""Where time comes from: the only clocks in the project's decision path, handed in by whoever runs it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that never go back."""

    def now_s(self) -> float: ...


class MonotonicClock:
    """The host's monotonic clock. Its readings never leave the process: ages travel, not times."""

    def now_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands until it is moved: for tests and for virtual time."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, by_s: float) -> None:
        if by_s < 0:
            raise ValueError(f"a clock cannot go back ({by_s} s)")
        self._now_s += by_s
