"""Clocks and other functions that were replaced. Times are the judge's own."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations


class Timers:
    """Functions of the candidate's process that stand for something else than before."""

    name = "timers"
    looks_at = "functions that were replaced"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if seen.changed:
            names = ", ".join(seen.changed[:6])
            yield reject(self.name, f"replaces {names}", names=list(seen.changed))
