"""Tiles of depthwise convolutions of 16 bits whose threads have strips of outputs, and the best one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mucc.dialects.mu.types import Dims
from mucc.dialects.mu.windows import Window

STRIP_ROWS = 4
"""Rows of a thread of mucc/conv_strips.cuh."""
STRIP_RUNS = (7, 5, 8, 4)
"""Outputs of a strip. Halves of a warp whose strips are an odd number of positions apart do not meet in the
banks of shared memory."""
STRIP_WARPS = (8, 4, 2)
STRIPS, STRIP_CHANNELS = 2, 32
STRIP_SHARED = 110 * 1024
"""The most bytes of a block: two of them share a multiprocessor."""
STRIP_RESIDENT, STRIP_REGISTERS = 16, 640
"""Warps of a multiprocessor that hide each other's waits, and what it has registers for, in threads."""
STRIP_SUMS = 64
"""The most sums of a thread."""
STRIP_COPIED, STRIP_TAP, STRIP_STORED = 6.0, 2.4, 20.0
"""Instructions of a thread for two channels of a position that is copied, of a tap, and of an output."""
STRIP_MEETING = 1.15
"""How much longer the products of strips take that meet in the banks."""


class StripTile(NamedTuple):
    """The warps of a block below and beside each other, and the outputs of a strip."""

    below: int
    beside: int
    run: int

    @property
    def places(self) -> tuple[int, int]:
        return self.below * STRIP_ROWS, self.beside * STRIPS * self.run

    @property
    def warps(self) -> int:
        return self.below * self.beside


def _tiles() -> Iterator[StripTile]:
    for run, warps in itertools.product(STRIP_RUNS, STRIP_WARPS):
        yield from (StripTile(below, warps // below, run) for below in (1, 2, 4, 8) if below <= warps)


def _cost(tile: StripTile, places: Sequence[int], windows: Sequence[Window]) -> float | None:
    """Estimate a thread's instructions for all results of 32 channels; None where a tile does not fit."""
    reach = [(t - 1) * w.stride + w.reach for t, w in zip(tile.places, windows, strict=True)]
    copied, taps = math.prod(reach), math.prod(w.size for w in windows)
    shared = copied * STRIP_CHANNELS * 2 + taps * (STRIP_CHANNELS + 2) * 4
    if shared > STRIP_SHARED or STRIP_ROWS * tile.run * 2 > STRIP_SUMS:
        return None
    blocks = math.prod(math.ceil(p / t) for p, t in zip(places, tile.places, strict=True))
    meets = tile.run * windows[1].stride % 2 == 0
    products = STRIP_TAP * taps * (STRIP_MEETING if meets else 1.0) + STRIP_STORED
    room = min(2 * STRIP_SHARED // shared, STRIP_REGISTERS // (32 * tile.warps))
    few = max(1.0, math.sqrt(STRIP_RESIDENT / (room * tile.warps)))
    return blocks * (math.prod(tile.places) * products + STRIP_COPIED * copied) * few


def best_strip(channels: int, places: Dims, windows: Sequence[Window]) -> StripTile | None:
    """Return the tile for results of so many channels, each a group; None where no kernel has strips of them.

    Channels are whole pieces of 16 bytes, and there are two spatial axes of known extents.
    """
    known = [place for place in places if isinstance(place, int)]
    if len(places) != 2 or len(known) < 2 or channels % 8:
        return None
    costs = [(cost, tile) for tile in _tiles() if (cost := _cost(tile, known, windows)) is not None]
    return min(costs, default=(0.0, None))[1]
