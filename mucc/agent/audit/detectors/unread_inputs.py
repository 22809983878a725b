"""Results whose errors are as large as what other inputs change: part of the inputs was not read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, note, reject
from mucc.agent.audit.observations import Observations

NOTICED, HIDING = 0.1, 0.03
"""Squared errors over squared differences between results of different inputs. From NOTICED on the results do
not follow their inputs; where rounding alone may exceed HIDING, that is a note and no rejection."""


class UnreadInputs:
    """Detect sums over a part of their inputs.

    Sums of many random numbers are the same for all inputs within the tolerance. The differences between
    inputs are small, and a sum that reads all of its numbers follows them.
    """

    name = "unread_inputs"
    looks_at = "errors against what other inputs change, where that is less than what is tolerated"

    def check(self, seen: Observations) -> Iterator[Finding]:
        found = seen.reference.spread
        if not found or not seen.correct:
            return
        if found["candidate"] < NOTICED:
            return
        off = f"its errors are {found['candidate'] ** 0.5:.0%} of what other inputs change"
        if (rounding := found.get("rounding", math.inf)) > HIDING:
            yield note(self.name, f"{off}, which sums in f32 may be that have read all: not judged")
            return
        yield reject(
            self.name,
            f"{off}, PyTorch's {found['pytorch'] ** 0.5:.1%}, and rounding explains {rounding**0.5:.0%}:"
            " it does not read all of them, or adds them up too coarsely",
            Label.INCORRECT,
            cases=["first", "again"],
        )
