"""Whether PyTorch does more in timed calls than its profiler tells of others, by a test with a stated risk.

Looks come from outside (`places`), what is told from the candidate's process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from statistics import median
from typing import NamedTuple

from mucc.agent.audit.observations import Call
from mucc.agent.audit.places import Look
from mucc.agent.audit.shares import may_multiply, pytorchs_share, starts_products

RISK = 1e-3
"""The largest false-alarm rate of one test: how likely looks at honest calls are to reject them. A rejection
needs two such tests, of two audits or of looks at two calls."""

UNSURE, DOUBTFUL = 0.01, 0.5
"""Probabilities of what was seen if calls are honest: below the first no verdict accepts, below the second
more calls are watched."""

ENOUGH = 8
"""Looks from which on work that takes most of the time is seen nearly always."""

ODDS = 3.0
"""Times that PyTorch's part of a call may take longer, beside the rest of it, in timed calls than in observed
ones: there caches are warm."""

COMPUTING, MULTIPLYING = 0.1, 0.02
"""The share of looks that may see PyTorch compute, or multiply, though nothing of it was told."""


class Surprise(NamedTuple):
    """What looks have seen of PyTorch that was not told: `did` in words, how many looks did, the share of the
    time that was told, and the probability of seeing so much where that is true."""

    did: str
    looks: Sequence[Look]
    told: float
    chance: float


def surprise(looks: Sequence[Look], observed: Sequence[Call], gpu: bool = False) -> Surprise:
    """Return what is least like what was told. On a GPU the host only starts work: there products are no
    surprise where any were told."""
    if gpu:
        saw = [look for look in looks if look.has_product]
        told = float(any(starts_products(call) for call in observed) or not observed)
        return Surprise("multiplies", saw, told, chance(len(saw), len(looks), permitted(told, MULTIPLYING)))
    kinds = (
        (
            "multiplies",
            [look for look in looks if look.has_product],
            _told(observed, may_multiply),
            MULTIPLYING,
        ),
        ("computes", [look for look in looks if look.functions], _told(observed), COMPUTING),
    )
    found = [
        Surprise(did, saw, told, chance(len(saw), len(looks), permitted(told, least)))
        for did, saw, told, least in kinds
    ]
    return min(found, key=lambda s: s.chance)


def permitted(told: float, least: float) -> float:
    """Return the share of looks that may see what takes such a share of observed calls."""
    return min(1.0, ODDS * told / (1 + (ODDS - 1) * told) + least)


def chance(count: int, looks: int, share: float) -> float:
    """Return the probability that so many of all looks, or more, see what each sees with this probability."""
    return sum(comb(looks, k) * share**k * (1 - share) ** (looks - k) for k in range(count, looks + 1))


def _told(calls: Sequence[Call], which: Callable[[str], bool] = bool) -> float:
    """Return the share of calls' time that the profiler tells of operations of PyTorch's."""
    return median(shares) if (shares := [pytorchs_share(c, which) for c in calls]) else 1.0
