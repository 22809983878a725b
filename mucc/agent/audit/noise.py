"""Whether times can be told apart from what else the machine does."""

from __future__ import annotations

import math
from collections.abc import Sequence

CONFIDENCE = 0.99
"""Confidence of an interval for a median, see `interval`. Intervals of two series of the same kernel are
disjoint in at most 1 of 100 cases for each interval."""

WIDEST = 0.25
"""The widest undisturbed interval, to either side of the median, as a share of the median."""

LEAST_MS = 0.02
"""An interval up to this width is always accepted: the operating system's scheduler causes it."""


MOST_MS = 0.06
"""What a call of nothing takes at the most, by words or behind the gate: more is other work."""

TIMES, MORE_MS = 2.0, 0.15
"""Where the GPU has other work, clearing the caches takes longer than so many times as usual and so many ms
more."""


def delayed(ms: float, *usual: float) -> bool:
    """Whether a kernel of the judge had to wait for others: it took longer than each time that was usual."""
    most = max(usual)
    return bool(most) and ms > TIMES * most + MORE_MS


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
