"""When the parent stops a call that is watched."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

LONG_MS, LOOKS = 20.0, 4
"""The ms from which on a call that is watched is stopped so often: there are few calls then."""


def moments(took: Sequence[float]) -> list[float]:
    """Draw moments in ms from the start of a call, by what calls took before.

    A call that has been stopped may know it, so that short ones are stopped once.
    """
    if not took:
        return []
    usual = statistics.median(took)
    draw = random.SystemRandom().uniform
    return sorted(draw(0.0, usual) for _ in range(1 if usual < LONG_MS else LOOKS))
