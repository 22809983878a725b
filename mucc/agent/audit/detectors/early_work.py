"""Work before a call may begin: in a process that goes on when it is stopped; on a GPU, kernels that wait for
inputs, or keep caches warm."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.activity import RESOLVED_US
from mucc.agent.audit.findings import Finding, reject, unless_crowded
from mucc.agent.audit.noise import delayed
from mucc.agent.audit.observations import Call, Observations

RESTLESS, FEWEST = 0.1, 3
"""The share of timed calls, and their number, before which a process runs that is stopped; fewer are what the
system counts late."""


class EarlyWork:
    """Whether the process or the GPU was busy when nothing of a call could have begun."""

    name = "early_work"
    looks_at = (
        "time of processors while the process is stopped, and on a GPU kernels that start before the default"
        " stream has come to the call, and time of the judge's own kernel"
    )

    def check(self, seen: Observations) -> Iterator[Finding]:
        restless = seen.timing.restless
        if len(restless) >= max(FEWEST, RESTLESS * len(seen.timed)):
            yield reject(
                self.name,
                f"its process ran while it was stopped for inputs to come: {', '.join(restless[:6])}",
                cases=list(restless),
            )
        if cases := {c.case.name: names for c in seen.observed if (names := _unasked(c))}:
            most = max(w.early_us or 0.0 for c in seen.observed for w in c.work)
            yield reject(
                self.name,
                f"kernels on another stream started up to {most:.4g} us before the default stream had come to"
                f" the call, and wait for no inputs: {', '.join(cases)}",
                cases=cases,
                early_us=most,
            )
        before, during, _, after = seen.timing.cleared
        # A stream that waits for another one may keep the GPU for its process, some 1.5 ms on an H100: where
        # there are several, records tell early work, and this time does not.
        waits = len(seen.streams) > 1 and seen.tells_turns
        if delayed(during, before, after) and not waits:
            found = reject(
                self.name,
                f"the GPU was at work before a call could begin: clearing its caches took {during:.3g} ms,"
                f" {before:.3g} ms before the solution was loaded and {after:.3g} ms after its end",
                during_ms=during,
                usual_ms=max(before, after),
            )
            yield unless_crowded(found, seen.timing.crowded)


def _unasked(call: Call) -> list[str]:
    """Return the kernels of an observed call that started before the default stream had come to it."""
    return sorted({w.name for w in call.work if (w.early_us or 0.0) > RESOLVED_US})
