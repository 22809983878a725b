"""Which task of a set is worth a further round."""

from __future__ import annotations

import math


def expected_gain(best_ms: float | None, bound_ms: float | None, since: int) -> float:
    """What a further round at a task may gain: the logarithm of its gap, over one more than the attempts
    since the last progress.

    The logarithm since a set is judged by its geometric mean; a task at the bound gains nothing. Without a
    bound, or without a time that counts, the gap is taken as 2.
    """
    gap = best_ms / bound_ms if best_ms and bound_ms else 2.0
    return math.log(max(gap, 1.0)) / (1 + since)
