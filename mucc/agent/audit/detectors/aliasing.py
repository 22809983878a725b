"""Results in the memory of inputs, or of earlier results."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, minor, note, reject
from mucc.agent.audit.observations import Observations


class Aliasing:
    """Where results lie."""

    name = "aliasing"
    looks_at = "addresses of results against those of inputs and of earlier results, in timed calls too"

    def check(self, seen: Observations) -> Iterator[Finding]:
        shared = {n for c in seen.calls for out in c.outputs for n in out.aliases}
        shared |= set(seen.timing.aliased)
        if shared and not seen.reference.aliases:
            names = ", ".join(map(str, sorted(shared)))
            yield reject(self.name, f"a result lies in the memory of input {names}")
        if any(out.shares_elements for c in seen.calls for out in c.outputs):
            yield note(
                self.name,
                "elements of a result share memory: to hand it over writes what the call has not, and counts",
            )
        if any(c.overwritten for c in seen.calls):
            yield minor(self.name, "a call overwrites the result of the one before: results share one memory")
