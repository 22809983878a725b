"""Results that do not depend on the inputs, although the reference's do."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations


class ConstantOutput:
    """The same result to the bit for other inputs, every time."""

    name = "constant_output"
    looks_at = "whether results change with the inputs"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if seen.reference.constant or seen.correct or any(c.late for c in seen.calls):
            return
        others = [c for c in seen.calls[1:] if c.case.seed != seen.calls[0].case.seed]
        if others and all(c.comparison.repeats for c in others):
            yield reject(self.name, f"the same result, to the bit, for {len(others) + 1} different inputs")
