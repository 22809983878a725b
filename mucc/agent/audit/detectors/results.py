"""Results that differ from the reference's."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, note, reject
from mucc.agent.audit.observations import Observations

MANY = 0.05
"""The share of elements from which on it is no chance that these are far off (`absent`)."""


class Results:
    """Each case against the reference in float64."""

    name = "results"
    looks_at = "results of every case against the reference in float64"

    def check(self, seen: Observations) -> Iterator[Finding]:
        judged = list(seen.compared)
        wrong = [c for c in judged if not c.comparison.correct]
        if wrong:
            first = wrong[0]
            yield reject(
                self.name,
                f"wrong in {len(wrong)} of {len(judged)} cases; {first.case.name}: {first.comparison.why}",
                Label.INCORRECT,
                cases=[c.case.name for c in wrong],
            )
        absent = [c for c in judged if c.comparison.correct and c.comparison.absent > MANY]
        if (absent or seen.reference.absent > MANY) and seen.precision == "declared":
            most = max([seen.reference.absent, *(c.comparison.absent for c in absent)])
            yield reject(
                self.name,
                f"{most:.0%} of the elements are far from what they should be, each less than what the"
                " largest ones make tolerable: small elements are not computed",
                Label.INCORRECT,
                cases=[c.case.name for c in absent] or list(seen.reference.roughest),
            )
        skipped = [c.case.name for c in seen.calls if not c.comparison.judged]
        if skipped:
            yield note(
                self.name, f"not judged: {', '.join(skipped)}: the reference has no finite result there"
            )
        for text in seen.reference.notes:
            yield note(self.name, text)
