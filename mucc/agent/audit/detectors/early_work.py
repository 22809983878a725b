"""Work before a call may begin: in a process that goes on when it is stopped; on a GPU, kernels that wait for
inputs, or keep caches warm."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject, unless_crowded
from mucc.agent.audit.noise import delayed
from mucc.agent.audit.observations import Observations

RESTLESS, FEWEST = 0.1, 3
"""The share of timed calls, and their number, before which a process runs that is stopped; fewer are what the
system counts late."""


class EarlyWork:
    """Whether the process or the GPU was busy when nothing of a call could have begun."""

    name = "early_work"
    looks_at = "time of processors while the process is stopped, and of the judge's own kernel on a GPU"

    def check(self, seen: Observations) -> Iterator[Finding]:
        restless = seen.timing.restless
        if len(restless) >= max(FEWEST, RESTLESS * len(seen.timed)):
            yield reject(
                self.name,
                f"its process ran while it was stopped for inputs to come: {', '.join(restless[:6])}",
                cases=list(restless),
            )
        before, during, _, after = seen.timing.cleared
        if delayed(during, before, after):
            found = reject(
                self.name,
                f"the GPU was at work before a call could begin: clearing its caches took {during:.3g} ms,"
                f" {before:.3g} ms before the solution was loaded and {after:.3g} ms after its end",
                during_ms=during,
                usual_ms=max(before, after),
            )
            yield unless_crowded(found, seen.timing.crowded)
