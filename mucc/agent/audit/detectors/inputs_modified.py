"""Inputs that are not what they were."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations


class InputsModified:
    """Inputs that a call has changed, where the reference leaves them alone."""

    name = "inputs_modified"
    looks_at = "the inputs before and after each call"

    def check(self, seen: Observations) -> Iterator[Finding]:
        changed = {n for c in seen.calls for n in c.inputs_changed} | set(seen.timing.modified)
        changed -= set(seen.reference.modifies)
        if changed:
            names = ", ".join(map(str, sorted(changed)))
            yield reject(
                self.name, f"changes input {names}, which the reference leaves alone", inputs=sorted(changed)
            )
