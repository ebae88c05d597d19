"""The routing decision as a plain Python loop over lists: what the vectorised core is measured against. It makes
the identical choice, bit for bit."""

from collections.abc import Sequence

NO_SCORE = float("-inf")


def best_per_type(
    waiting_T: Sequence[float],
    quality_T: Sequence[float],
    waiting_TJ: Sequence[Sequence[float]],
    quality_TJ: Sequence[Sequence[float]],
    quality_weight: float,
) -> list[tuple[int, float]]:
    """(column, score) of the best neighbour for each type; ties go to the smallest column. DEALS section 3.2."""
    return [
        best_neighbour(waiting, quality, waiting_J, quality_J, quality_weight)
        for waiting, quality, waiting_J, quality_J in zip(
            waiting_T, quality_T, waiting_TJ, quality_TJ, strict=True
        )
    ]


def best_neighbour(
    waiting: float,
    quality: float,
    waiting_J: Sequence[float],
    quality_J: Sequence[float],
    quality_weight: float,
) -> tuple[int, float]:
    """(column, score) of the best neighbour for one type. Needs one neighbour."""
    best, best_score = 0, NO_SCORE
    for column, (other_waiting, other_quality) in enumerate(zip(waiting_J, quality_J, strict=True)):
        score = (other_quality - quality) * quality_weight + waiting - other_waiting
        if score > best_score:
            best, best_score = column, score
    return best, best_score
