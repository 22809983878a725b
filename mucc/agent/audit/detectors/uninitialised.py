"""Results that hold what was in memory before."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, reject
from mucc.agent.audit.observations import Observations


class Uninitialised:
    """NaN or huge numbers where the reference has none: memory was poisoned before each call."""

    name = "uninitialised"
    looks_at = "memory that is poisoned before each call"

    def check(self, seen: Observations) -> Iterator[Finding]:
        strange = [c.case.name for c in seen.compared if not c.comparison.correct and not c.comparison.finite]
        if strange:
            yield reject(
                self.name,
                f"NaN or infinity in {', '.join(strange)}: elements not written, or read before they are",
                Label.INCORRECT,
                cases=strange,
            )
