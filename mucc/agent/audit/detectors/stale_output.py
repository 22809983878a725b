"""Results of an earlier call, returned again."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Call, Observations
from mucc.agent.audit.repeats import does_less, pairs


class StaleOutput:
    """A wrong result that was right for a call before, or one that is the same to the bit as before."""

    name = "stale_output"
    looks_at = "whether a result belongs to the inputs of an earlier call"

    def check(self, seen: Observations) -> Iterator[Finding]:
        yield from self._recognised(seen)
        if seen.reference.constant or seen.correct or any(c.late for c in seen.calls):
            return
        stale = [(c, c.comparison.stale_of or c.comparison.repeats) for c in seen.compared if _wrong(c)]
        found = [(c.case.name, of) for c, of in stale if of]
        if found:
            case, of = found[0]
            yield reject(
                self.name,
                f"'{case}' got the result of '{of}': results are kept, or work is not done again",
                cases=dict(found),
            )

    def _recognised(self, seen: Observations) -> Iterator[Finding]:
        """Yield a finding if a call does less work each time on equal inputs at the same address."""
        found = pairs(seen.calls)
        if found and all(does_less(back, same) for back, same in found):
            yield reject(self.name, "does less when the same inputs come again: results are kept")


def _wrong(call: Call) -> bool:
    return not call.comparison.correct
