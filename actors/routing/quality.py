"""Success estimates by task type, from credited verdicts. Pure."""

from dataclasses import dataclass

import numpy as np

from actors.config import QualitySettings
from actors.routing.scores import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Credited successes and failures by task type; axis T follows the plan's task types."""

    successes_T: tuple[int, ...]
    failures_T: tuple[int, ...]
    divided_successes_T: tuple[int, ...] = ()
    """Of the successes, those on tasks that the agent split a part off; empty: of none."""
    divided_failures_T: tuple[int, ...] = ()


class SuccessEstimates:
    """p^c = (s + a) / (s + f + a + b): Laplace's rule at a = b = 1 (the paper counts successes and failures,
    section 3.2; the prior is our decision). With a discount g < 1 each new verdict of a type multiplies the
    weight of its earlier ones by g."""

    def __init__(self, types: int, settings: QualitySettings) -> None:
        self._settings = settings
        self._successes_T = np.zeros(types, dtype=np.int64)
        self._failures_T = np.zeros(types, dtype=np.int64)
        self._divided_ST = np.zeros((2, types), dtype=np.int64)
        """Of both, those on tasks that were split here: failures, then successes."""
        self._right_T: Floats = np.zeros(types)
        self.tries_T: Floats = np.zeros(types)
        """Verdicts behind each estimate, discounted."""
        self.quality_T: Floats = np.empty(types)
        """Estimates, shape (T,); changed in place."""
        self.changes = 0
        """How often they have changed: a cheap answer to whether there is anything new to tell."""
        self._estimate()

    def credit(self, type_index: int, *, success: bool, divided: bool = False) -> None:
        """Counts one verdict, on a task that was split here or not."""
        self._divided_ST[int(success), type_index] += divided
        (self._successes_T if success else self._failures_T)[type_index] += 1
        discount = self._settings.discount
        self._right_T[type_index] = self._right_T[type_index] * discount + success
        self.tries_T[type_index] = self.tries_T[type_index] * discount + 1
        self._estimate()

    def split_gain(self, type_index: int) -> float:
        """Success rate of tasks that were split here less that of those that were not, both with the prior."""
        right, wrong = self._settings.prior_successes, self._settings.prior_failures
        failures, successes = (int(n) for n in self._divided_ST[:, type_index])
        divided = (successes + right) / (successes + failures + right + wrong)
        successes = int(self._successes_T[type_index]) - successes
        failures = int(self._failures_T[type_index]) - failures
        return divided - (successes + right) / (successes + failures + right + wrong)

    def counts(self) -> Counts:
        failures, successes = (tuple(counts_T) for counts_T in self._divided_ST.tolist())
        return Counts(
            successes_T=tuple(self._successes_T.tolist()),
            failures_T=tuple(self._failures_T.tolist()),
            divided_successes_T=successes if any(successes) else (),
            divided_failures_T=failures if any(failures) else (),
        )

    def restore(self, counts: Counts) -> None:
        """Takes counts from an earlier run; axis T as here, or ValueError."""
        given = (counts.successes_T, counts.failures_T, counts.divided_successes_T, counts.divided_failures_T)
        types = len(self._successes_T)
        if odd := [each for each in given[:2] + tuple(filter(None, given[2:])) if len(each) != types]:
            raise ValueError(f"counts for {len(odd[0])} task types do not fit {types}")
        self._successes_T[:], self._failures_T[:] = given[:2]
        self._divided_ST[:] = [
            counts.divided_failures_T or (0,) * types,
            counts.divided_successes_T or (0,) * types,
        ]
        self._right_T[:] = self._successes_T
        self.tries_T[:] = self._successes_T + self._failures_T
        self._estimate()

    def _estimate(self) -> None:
        self.changes += 1
        prior = self._settings
        self.quality_T[:] = (self._right_T + prior.prior_successes) / (
            self.tries_T + prior.prior_successes + prior.prior_failures
        )
