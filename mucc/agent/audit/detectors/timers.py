"""Times that do not hold against another clock, and clocks that were replaced."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations

SLACK_MS = 0.3
"""What calling from Python may cost beside the work itself, a call."""

TIMES = 2.0
"""How many times as long as by events calls may take by our own clock."""

MANY = 0.5
"""Of the calls' time by our clock: events may say so much less."""


class Timers:
    """Our clock, in another process, against the times that the candidate's process tells."""

    name = "timers"
    looks_at = "functions that were replaced, and event times against another process's clock"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if seen.changed:
            names = ", ".join(seen.changed[:6])
            yield reject(self.name, f"replaces {names}", names=list(seen.changed))
        timing = seen.timing
        if not timing.calls or timing.wall_ms is None:
            return
        told = median(timing.calls)
        if timing.wall_ms > TIMES * told + SLACK_MS:
            yield reject(
                self.name,
                f"a call takes {timing.wall_ms:.4g} ms by our clock, {told:.4g} ms as its process tells",
                wall_ms=timing.wall_ms,
                told_ms=told,
            )
