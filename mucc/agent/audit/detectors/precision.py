"""Arithmetic in fewer digits than the policy permits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, reject
from mucc.agent.audit.observations import Observations

NOTICED = 0.25
"""Of the exact change of results: who shows less of it has rounded its operands."""

EXPECTED = 0.5
"""Who shows at least this much of it has not."""

FOLLOWS = 0.8
"""The share of the exact change that is in the results at the least where all operands have all their digits:
who rounds some of them shows less, whatever noise is added."""

PART = 0.2
"""The share of the error of rounded operands from which on some of these were rounded."""

SCATTER, TIMES = 1e-5, 30.0
"""How far a change of results is from the exact one where operands were rounded to steps that lie between
digits, such as whole numbers of 16 bits, relative to their size (2e-5, 60 times what PyTorch's is). Sums in
any order are at 2e-6, 10 times PyTorch's, and Winograd's inner products at 6e-6, 17 times."""

GROSS = 1000.0
"""Times what is tolerated: results that are so far off say nothing about digits."""

SMALLEST = 2.0**-20
"""Relative changes of results below this are lost in f32."""

FORMATS = {
    "bf16": "bf16",
    "tf32": "tf32 or f16",
    "bf16x2": "two terms of bf16",
    "digits17": "14 to 17 binary digits",
}
"""What is said of each format. PyTorch calls two terms of bf16 "high" precision, and f32 "highest"."""

PERMITTED = {
    "declared": (),
    "tf32": ("tf32", "bf16x2", "digits17"),
    "f16": ("tf32", "bf16x2", "digits17"),
    "bf16": ("tf32", "bf16", "bf16x2", "digits17"),
}
"""Formats that a policy lets operands be rounded to."""


class Precision:
    """Operands whose last digits make no difference (`inputs.probed`), and weights and inputs that were
    rounded (`Referee._rounded`)."""

    name = "precision"
    looks_at = "whether digits that narrower formats drop change the results"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if any(c.comparison.excess > GROSS or c.comparison.stale_of for c in seen.compared):
            return
        for name, formats in FORMATS.items():
            moved = seen.reference.probes.get(name)
            if not moved or name in PERMITTED[seen.precision] or moved["exact"] < SMALLEST:
                continue
            told, own = (moved[who] / moved["exact"] for who in ("candidate", "pytorch"))
            follows = moved.get("follows", math.inf)
            if (told < NOTICED and own > EXPECTED) or (follows < FOLLOWS and own > FOLLOWS):
                said = f"digits beyond that move its results by {min(told, follows):.0%} of what is due"
                yield reject(
                    self.name,
                    f"computes f32 in {formats}: {said}",
                    moved=dict(moved),
                )
                return
        for name, moved in seen.reference.probes.items():
            scatter, usual = moved.get("scatter", 0.0), moved.get("usual", 0.0)
            if seen.precision == "declared" and scatter > max(SCATTER, TIMES * usual) and usual > 0:
                yield reject(
                    self.name,
                    f"where digits beyond {name} change, its results are off by {scatter:.1g} of their size,"
                    f" {scatter / usual:.0f} times as much as PyTorch's: operands were rounded to 16 digits"
                    " or fewer",
                    Label.INCORRECT,
                    moved=dict(moved),
                )
                return
        for name, formats in FORMATS.items():
            part = seen.reference.rounded.get(name)
            if not part or name in PERMITTED[seen.precision] or part["pytorch"] > NOTICED:
                continue
            if part["candidate"] > PART:
                said = f"{part['candidate']:.0%} of the error that this makes is in its results"
                yield reject(
                    self.name,
                    f"multiplies f32 that was rounded to {formats}: {said}",
                    cases=list(seen.reference.roughest),
                    part=dict(part),
                )
                return
