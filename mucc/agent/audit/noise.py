"""Whether times can be told apart from what else the machine does."""

from __future__ import annotations

import math
from collections.abc import Sequence

CONFIDENCE = 0.99
"""Of an interval for a median. Two series of the same kernel whose intervals do not meet are this rare: at
most 1 in 100 for each interval, see `interval`."""

WIDEST = 0.25
"""Of a median, to either side: an interval that is wider says that something disturbed."""

LEAST_MS = 0.02
"""A width that says nothing: what the system's scheduler costs."""


def interval(times: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return an interval that holds the median of what times are drawn from, with this probability or more.

    It lies between two order statistics, so nothing is assumed of the distribution: each time is below the
    median with probability one half, hence the median is outside of the k-th smallest and largest with
    probability 2 P(Binomial(n, 1/2) < k). With few times it is the whole range.
    """
    ordered = sorted(times)
    n = len(ordered)
    k, outside = 0, 2 * 0.5**n
    while k + 1 < (n + 1) // 2 and outside <= 1 - confidence:
        k += 1
        outside += 2 * math.comb(n, k) * 0.5**n
    k = max(k - 1, 0) if outside > 1 - confidence else k
    return ordered[k], ordered[n - 1 - k]


def waited_ns() -> int:
    """Return how long this thread has waited for a processor so far, as the system tells; 0 where it does
    not."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def is_steady(times: Sequence[float]) -> bool:
    """Whether the median is known well enough to be told."""
    if not times:
        return True
    low, high = interval(times)
    middle = sorted(times)[len(times) // 2]
    return high - low <= max(2 * WIDEST * middle, LEAST_MS)
