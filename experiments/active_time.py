"""The time in which a phase was really worked on: a run that was interrupted and resumed has gaps. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.record import Phase, PhaseMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One stretch of work on a phase (s since the epoch)."""

    begin_s: float
    end_s: float
    interrupted: bool
    """No end was recorded: it ends at its last result."""

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTime:
    """The segments of one phase, in time order."""

    segments: tuple[Segment, ...]

    @property
    def total_s(self) -> float:
        return sum(segment.length_s for segment in self.segments)

    @property
    def interrupted(self) -> bool:
        return any(segment.interrupted for segment in self.segments)

    def at(self, wall_s: float) -> float:
        """Active seconds since the phase began; what falls into a gap counts as the gap's beginning."""
        return sum(
            min(max(wall_s - segment.begin_s, 0.0), segment.length_s)
            if position + 1 < len(self.segments) or not segment.interrupted
            else max(wall_s - segment.begin_s, 0.0)  # still running, maybe: measurements go on
            for position, segment in enumerate(self.segments)
        )


def active_time(phase: Phase, marks: Sequence[PhaseMark], finished_wall_s: Sequence[float]) -> ActiveTime:
    """The segments of `phase`, from its marks and from when its tasks finished.

    A segment whose end is missing (the run was interrupted, or is still going on) ends at the last result
    before the next one begins.
    """
    own = [mark for mark in marks if mark.phase == phase]
    segments = []
    for mark, following in zip(own, [*own[1:], None], strict=False):
        if mark.what != "begin":
            continue
        if following is not None and following.what == "end":
            segments.append(Segment(begin_s=mark.wall_s, end_s=following.wall_s, interrupted=False))
            continue
        until_s = following.wall_s if following is not None else math.inf
        last_s = max((s for s in finished_wall_s if mark.wall_s <= s < until_s), default=mark.wall_s)
        segments.append(Segment(begin_s=mark.wall_s, end_s=last_s, interrupted=True))
    return ActiveTime(segments=tuple(segments))
