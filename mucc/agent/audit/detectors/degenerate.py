"""Problems that are no measure of anything."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, note, reject
from mucc.agent.audit.observations import Observations


class Degenerate:
    """A reference whose result is the same whatever the inputs are."""

    name = "degenerate"
    looks_at = "whether the reference's results would do for each other, and inputs that are always the same"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if seen.reference.constant:
            yield reject(
                self.name,
                "the reference gives one result for all inputs, within what is tolerated",
                Label.INHERITED_GAMING,
            )
        elif seen.reference.weak:
            yield note(self.name, "the reference gives one result for all stated inputs; scaled ones decided")
        if seen.reference.fixed:
            names = ", ".join(map(str, seen.reference.fixed))
            yield note(self.name, f"input {names} is the same in all calls: nothing tells whether it is read")
        if seen.reference.random:
            yield note(self.name, "the reference draws random numbers: it was compared with the same seeds")
