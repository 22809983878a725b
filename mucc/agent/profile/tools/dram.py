"""Detect saturated device memory."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence

BUSY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"

SATURATED = 80.0
"""Percent of the peak: KernelPro (arXiv 2606.26453)."""


class Dram:
    """Detects stages that saturate device memory: only fewer bytes make them faster."""

    name = "dram"
    looks_at = "how much of device memory's bandwidth is used"
    limits = frozenset({Limit.MEMORY, Limit.MIXED})
    sources = ("ncu",)
    metrics = (BUSY,)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if (busy := stage.counters.get(BUSY, 0.0)) <= SATURATED:
                continue
            yield Advice(
                self.name,
                Severity.INFO,
                f"device memory is saturated ({busy:.0f} % of its peak): only fewer bytes are faster",
                [
                    "fuse it with its neighbours, so that what lies between is not stored",
                    "store what lies between stages in 16 bits, if the policy of precision permits it",
                ],
                stage.name,
                ["fusion", "precision"],
                {BUSY: busy},
            )
