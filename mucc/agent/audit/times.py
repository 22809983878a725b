"""The times of one call by the judge's clock, for the judge's process and its parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

DISTURBED = 2.0
"""Times the least of them: a median that is larger was disturbed by other work."""


class Times(NamedTuple):
    """The times of one call by the judge's clock, in ms from its start, and its start in ns.

    `returned` is when it returned, `handed` when its results were handed over, and `copied` the most that
    handing over as many bytes takes.
    """

    returned: float
    handed: float
    copied: float
    began: int

    @property
    def counted(self) -> float:
        """The time that counts: until the call returned, or until its results were handed over less `copied`.

        The later one counts, as a call may still compute while its results are handed over.
        """
        return max(self.handed - self.copied, self.returned)


def calm(times: list[float]) -> float:
    """Return the median, or the least time where other work has disturbed that."""
    ordered = sorted(times)
    middle, least = ordered[len(ordered) // 2], ordered[0]
    return middle if middle < DISTURBED * least else least


def least_ms(ns: Sequence[int]) -> float:
    """Return the least of times, which other work has disturbed least, in ms; 0 where there are none."""
    return min(ns) / 1e6 if ns else 0.0
