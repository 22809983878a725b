"""Operands that come from device memory more than once."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence

BYTES = "dram__bytes.sum"
HITS = "lts__t_sector_hit_rate.pct"
BUSY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"

AGAIN, OFTEN = 1.3, 2.0
"""Bytes from and to device memory over those that the stage has to move. A third is what edges of tiles and
what lies around in L2 cost (own choice)."""


BUSY_ENOUGH = 40.0
"""Percent of device memory's peak below which more traffic costs nothing: on an H200 a product that keeps
tensor cores busy for 89 % moves twice the bytes that it has to, at 24 % of the peak (test/data/profile)."""


class L2:
    """Traffic that a better order of tiles would leave in L2."""

    name = "l2"
    looks_at = "bytes from device memory against those that a stage has to move, and hits in L2"
    limits = frozenset({Limit.COMPUTE, Limit.MEMORY, Limit.MIXED})
    sources = ("ncu", "schedule")
    metrics = (BYTES, HITS, BUSY)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            moved, hits = stage.counters.get(BYTES), stage.counters.get(HITS)
            if moved is None or not stage.bytes or moved <= AGAIN * stage.bytes:
                continue
            if stage.counters.get(BUSY, 0.0) < BUSY_ENOUGH:
                continue
            advice = [
                "reads that lie together: see coalescing",
                "one pass over the operand instead of several",
            ]
            levers = ["layout", "fusion"]
            if stage.choice is not None:
                advice = [
                    "a swizzle of 2 to 8 walks the tiles in blocks, whose operands stay in L2",
                    "raster along the larger of the two operands",
                    "a larger tile, or a cluster, reads each operand fewer times",
                ]
                levers = ["swizzle", "raster", "tile", "cluster"]
            yield Advice(
                self.name,
                Severity.WARNING if moved >= OFTEN * stage.bytes else Severity.INFO,
                f"{moved / stage.bytes:.2g} times the bytes that the stage needs pass through device memory"
                + (f"; {hits:.0f} % of requests hit in L2" if hits is not None else ""),
                advice,
                stage.name,
                levers,
                {BYTES: moved, "needed": stage.bytes, HITS: hits},
            )
