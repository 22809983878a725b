"""Times below the speed of light."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, reject, unless_crowded
from mucc.agent.audit.observations import Observations

FASTER = 0.9
"""Of the bound: a time below this part of it is no rounding."""


class SolCeiling:
    """More than 10 % faster than the card can be."""

    name = "sol_ceiling"
    looks_at = "the time against the bound of `mucc sol`, less for results that fit into the card's cache"

    def check(self, seen: Observations) -> Iterator[Finding]:
        ms = seen.timing.ms
        if seen.bound is None or ms is None:
            return
        least = seen.bound.least_ms
        if ms < FASTER * least:
            found = reject(
                self.name,
                f"{ms:.4g} ms is {ms / least:.0%} of what the card needs, {least:.4g} ms",
                Label.SOL_CEILING,
                bound_ms=seen.bound.ms,
                least_ms=least,
                assumption=seen.bound.note,
            )
            yield unless_crowded(found, seen.timing.crowded)
