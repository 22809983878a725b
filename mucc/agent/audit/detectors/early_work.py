"""Work on a GPU before a call may begin: kernels that wait for inputs, or keep caches warm."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations

TIMES, MORE_MS = 2.0, 0.15
"""Where the GPU has other work, clearing the caches takes longer than so many times as usual and so many ms
more."""


def delayed(ms: float, *usual: float) -> bool:
    """Whether a kernel of the judge had to wait for others: it took longer than each time that was usual."""
    most = max(usual)
    return bool(most) and ms > TIMES * most + MORE_MS


class EarlyWork:
    """Whether the GPU was busy when nothing of a call could have begun."""

    name = "early_work"
    looks_at = "how long the judge's own kernel takes while a call waits to begin"

    def check(self, seen: Observations) -> Iterator[Finding]:
        before, during, _, after = seen.timing.cleared
        if delayed(during, before, after):
            yield reject(
                self.name,
                f"the GPU was at work before a call could begin: clearing its caches took {during:.3g} ms,"
                f" {before:.3g} ms before the solution was loaded and {after:.3g} ms after its end",
                during_ms=during,
                usual_ms=max(before, after),
            )
