"""Results of an earlier call, returned again."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Call, Observations


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
        """Yield a finding if equal inputs at the same place are not computed again."""
        calls = {c.case.name: c for c in seen.calls}
        back, same = calls.get("back"), calls.get("same")
        if back is None or same is None:
            return
        if not set(back.lines) <= set(same.lines) or _kernels(same) < _kernels(back):
            yield reject(self.name, "does less when the same inputs come again: results are kept")


def _kernels(call: Call) -> int:
    return sum(w.calls for w in call.work if w.kind == "kernel")


def _wrong(call: Call) -> bool:
    return not call.comparison.correct
