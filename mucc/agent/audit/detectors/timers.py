"""Clocks and other functions that were replaced, marks that were forged. Times are the judge's own."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations


class Timers:
    """Functions of the candidate's process that stand for something else than before, and marks for the end
    of work on a GPU that come before its begin."""

    name = "timers"
    looks_at = "functions that were replaced, and marks that came before a call could begin"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if forged := seen.timing.forged:
            said = f"marks its work as done before it could begin: {', '.join(forged[:6])}"
            yield reject(self.name, said, cases=list(forged))
        if seen.changed:
            names = ", ".join(seen.changed[:6])
            yield reject(self.name, f"replaces {names}", names=list(seen.changed))
