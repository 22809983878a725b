"""Work on a GPU before a call may begin: kernels that wait for inputs, or keep caches warm."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations

TIMES, MORE_MS = 3.0, 0.3
"""Where the GPU has other work, clearing the caches takes longer than so many times as usual and so many ms
more."""


class EarlyWork:
    """Whether the GPU was busy when nothing of a call could have begun."""

    name = "early_work"
    looks_at = "how long the judge's own kernel takes while a call waits to begin"

    def check(self, seen: Observations) -> Iterator[Finding]:
        before, during, after = seen.timing.cleared
        usual = max(before, after)
        if usual and during > TIMES * usual + MORE_MS:
            yield reject(
                self.name,
                f"the GPU was at work before a call could begin: clearing its caches took {during:.3g} ms,"
                f" {before:.3g} ms before the solution was loaded and {after:.3g} ms after its end",
                during_ms=during,
                usual_ms=usual,
            )
