"""Results that differ from the reference's."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, note, reject
from mucc.agent.audit.observations import Observations


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
        skipped = [c.case.name for c in seen.calls if not c.comparison.judged]
        if skipped:
            yield note(
                self.name, f"not judged: {', '.join(skipped)}: the reference has no finite result there"
            )
        for text in seen.reference.notes:
            yield note(self.name, text)
