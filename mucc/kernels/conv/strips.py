"""Tiles of depthwise convolutions of 16 bits whose threads have strips of outputs, and the best one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mucc.dialects.mu.types import Dims
from mucc.dialects.mu.windows import Window
from mucc.target.facts import Facts

STRIP_ROWS = 4
"""Rows of outputs of a thread of mucc/conv_strips.cuh."""

STRIP_RUNS = (7, 5, 8, 4)
"""Outputs of a strip. Halves of a warp whose strips are an odd number of positions apart read different banks
of shared memory."""

STRIP_WARPS = (8, 4, 2)
"""Warps of a block."""

STRIPS, STRIP_CHANNELS = 2, 32
"""Strips of a warp side by side, channels of a block: kStrips and kChannels of `StripTile` in mucc/conv.h."""

STRIP_SHARED = 110 * 1024
"""The most bytes of a block, of which a multiprocessor of sm_90a has two; less where a target allows less."""

STRIP_RESIDENT, STRIP_THREADS = 16, 640
"""Warps of a multiprocessor that hide each other's waits, and threads for which it has registers: 102 of its
65,536 each."""

STRIP_SUMS = 64
"""The most sums of a thread."""

STRIP_COPIED, STRIP_TAP, STRIP_STORED = 6.0, 2.4, 20.0
"""Instructions of a thread for two channels of a position that is copied, of a tap, and of an output."""

STRIP_CONFLICTS = 1.15
"""The factor on the time of products whose strips read the same banks."""


class StripTile(NamedTuple):
    """The warps of a block below and beside each other, and the outputs of a strip."""

    below: int
    beside: int
    run: int

    @property
    def places(self) -> tuple[int, int]:
        """The outputs of a block along the two spatial axes."""
        return self.below * STRIP_ROWS, self.beside * STRIPS * self.run

    @property
    def warps(self) -> int:
        return self.below * self.beside


def _tiles() -> Iterator[StripTile]:
    """Yield all tiles that a kernel may have."""
    for run, warps in itertools.product(STRIP_RUNS, STRIP_WARPS):
        yield from (StripTile(below, warps // below, run) for below in (1, 2, 4, 8) if below <= warps)


def _cost(tile: StripTile, places: Sequence[int], windows: Sequence[Window], facts: Facts) -> float | None:
    """Estimate a thread's instructions for all results of 32 channels; None where a tile does not fit."""
    reach = [(t - 1) * w.stride + w.reach for t, w in zip(tile.places, windows, strict=True)]
    copied, taps = math.prod(reach), math.prod(w.size for w in windows)
    shared = copied * STRIP_CHANNELS * 2 + taps * (STRIP_CHANNELS + 2) * 4
    most = min(STRIP_SHARED, facts.limits.shared_memory)
    if shared > most or STRIP_ROWS * tile.run * 2 > STRIP_SUMS:
        return None
    blocks = math.prod(math.ceil(p / t) for p, t in zip(places, tile.places, strict=True))
    conflicts = tile.run * windows[1].stride % 2 == 0
    products = STRIP_TAP * taps * (STRIP_CONFLICTS if conflicts else 1.0) + STRIP_STORED
    by_memory = facts.multiprocessor.blocks_with(shared)
    room = min(by_memory, STRIP_THREADS // (32 * tile.warps))
    few = max(1.0, math.sqrt(STRIP_RESIDENT / (room * tile.warps)))
    return blocks * (math.prod(tile.places) * products + STRIP_COPIED * copied) * few


def best_strip(channels: int, places: Dims, windows: Sequence[Window], facts: Facts) -> StripTile | None:
    """Return the tile of fewest instructions for results of so many channels, each a group.

    None where no kernel has strips of them: channels are whole pieces of 16 bytes, there are two spatial axes
    of known extents, and what a block keeps fits the target's shared memory.
    """
    known = [place for place in places if isinstance(place, int)]
    if len(places) != 2 or len(known) < 2 or channels % 8:
        return None
    costs = [(c, tile) for tile in _tiles() if (c := _cost(tile, known, windows, facts)) is not None]
    return min(costs, default=(0.0, None))[1]
