"""Hypotheses of proposers, and their order by expected return."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mucc.api.json_types import Json


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A change that should make a program faster.

    `speedup` is the expected time of `parent` over that of the result, above 1 is faster. Risks are at least
    1: how likely it cannot be written (`implementation_risk`), and how likely it does not help
    (`performance_risk`). `kind` is a short name by which memory across problems groups them: tile, stages,
    scheduler, cluster, mainloop, fusion, precision, split, algebra, other. `moves` is what a proposer wants
    to find again when it implements.
    """

    title: str
    rationale: str
    kind: str = "other"
    speedup: float = 1.1
    implementation_risk: float = 1.0
    performance_risk: float = 1.0
    parent: int = 0
    moves: list[Json] = field(default_factory=list[Json])


def roi(hypothesis: Hypothesis, gap: float) -> float:
    """Return the return on investment by which MANTIS sorts: S^(1 + max(0, log10(g / 5))) / (R_impl R_perf).

    `gap` is the best time over the speed of light: far from it, boldness pays.
    """
    boldness = 1.0 + max(0.0, math.log10(max(gap, 1e-9) / 5.0))
    risk = max(hypothesis.implementation_risk, 1.0) * max(hypothesis.performance_risk, 1.0)
    return max(hypothesis.speedup, 1e-9) ** boldness / risk
