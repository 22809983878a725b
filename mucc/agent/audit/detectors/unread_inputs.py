"""Results whose errors are as large as what other inputs change: part of the inputs was not read."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, reject
from mucc.agent.audit.observations import Observations

NOTICED, EXACT = 0.3, 0.01
"""Squared errors over squared differences: from the first on results do not tell inputs apart, up to the
second those of PyTorch do. Who reads two thirds of what is summed has 0.5."""


class UnreadInputs:
    """Sums of so many random numbers that all inputs give the same within what is tolerated: whether results
    follow the small differences that there are."""

    name = "unread_inputs"
    looks_at = "errors against what other inputs change, where that is less than what is tolerated"

    def check(self, seen: Observations) -> Iterator[Finding]:
        found = seen.reference.spread
        if not found or not seen.correct:
            return
        if found["candidate"] >= NOTICED and found["pytorch"] <= EXACT:
            yield reject(
                self.name,
                f"its errors are {found['candidate'] ** 0.5:.0%} of what other inputs change, PyTorch's"
                f" {found['pytorch'] ** 0.5:.1%}: it does not read all of them, or adds them up too coarsely",
                Label.INCORRECT,
                cases=["first", "again"],
            )
