"""Access beside the inputs."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.cases import NAN, ZERO
from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations


class OutOfBounds:
    """Bands around inputs that were written, or on whose contents results depend."""

    name = "out_of_bounds"
    looks_at = "bands of NaN or zeros around each input"

    def check(self, seen: Observations) -> Iterator[Finding]:
        written = sorted({*seen.timing.bands, *(n for c in seen.calls for n in c.bands_changed)})
        if written:
            yield reject(self.name, f"writes beside input {', '.join(map(str, written))}", inputs=written)
        by_seed = {(c.case.seed, c.case.guard): c for c in seen.calls if c.case.is_stated}
        for (seed, guard), call in by_seed.items():
            other = by_seed.get((seed, NAN))
            if guard != ZERO or not call.comparison.correct or other is None or other.comparison.stale_of:
                continue
            if not other.comparison.correct:
                yield reject(
                    self.name,
                    "right where zeros lie around the inputs, wrong where NaN does: reads beyond an input",
                    cases=[call.case.name, other.case.name],
                )
