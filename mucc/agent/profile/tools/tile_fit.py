"""Tiles that reach over the edge of the result."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence
from mucc.agent.profile.tools import EVERY

PADDED, MOSTLY_PADDED = 1.25, 2.0
"""Work in tiles over work in the result. Up to a quarter is what whole tiles cost now and then; at twice as
much half of the products are thrown away (own choice)."""


class TileFit:
    """Work on rows and columns that the result does not have. Kernels for few rows read them as they are."""

    name = "tile_fit"
    looks_at = "how much of the tiles lies within the result"
    limits = EVERY
    sources = ("schedule",)
    metrics = ()

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage, choice in seen.products:
            if choice.extents is None or choice.mainloop == "skinny":
                continue
            (m, n, *_), (tile_m, tile_n, _) = choice.extents, choice.tile
            rows, columns = ceil(m / tile_m) * tile_m / m, ceil(n / tile_n) * tile_n / n
            if rows * columns <= PADDED:
                continue
            advice, levers = ["a tile nearer to the extents, or to a part of them"], ["tile"]
            if rows > columns and tile_m <= 128 and m < tile_m:
                advice.insert(
                    0, "exchange = on makes the few rows the columns of the tile, which may be narrow"
                )
                levers += ["exchange", "mainloop"]
                advice.append("mainloop = skinny multiplies few rows without tiles of 64")
            yield Advice(
                self.name,
                _severity(rows * columns, seen.limit),
                f"tiles of {tile_m}x{tile_n} do {rows * columns:.2g} times the work that {m}x{n} needs",
                advice,
                stage.name,
                levers,
                {"work": rows * columns, "extents": [m, n], "tile": [tile_m, tile_n]},
            )


def _severity(work: float, limit: Limit) -> Severity:
    if limit is Limit.MEMORY:
        return Severity.INFO  # products wait for memory anyway
    return Severity.CRITICAL if work >= MOSTLY_PADDED else Severity.WARNING
