"""Tiles of depthwise convolutions whose threads have strips of outputs, and which should be fastest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from mucc.dialects.mu.types import Dims
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.layer import Layer
from mucc.target import get_target
from mucc.target.facts import WIDEST_ACCESS, Facts

VECTORS, ROWS, RUNS = (2, 4), (1, 2, 4, 7, 8), (2, 4, 5, 7, 8)
"""Sizes of the part of the result that one thread computes: channels, rows, and positions of a row."""

THREADS = (64, 128, 256)
"""About how many threads a block has."""

FEWEST_LANES, MOST_LANES = 12, 40
"""Threads beside each other that share a position: with fewer a load takes little of a line of memory, with
more a block copies many weights."""

UNROLLED = 9
"""The most taps of windows for which loops over lines of x are unrolled."""

REGISTERS, OTHER_REGISTERS, LIVE = 168, 26, 0.5
"""The most registers of a thread, those that it needs for addresses and indices, and the share of a line that
it has as numbers at a time. With so many, kernels for windows of 3x3 to 7x7 have no spills."""

GRANULE = 8
"""Registers of a thread are given by so many."""

SHARED = 48 * 1024
"""The most bytes of a block's weights."""

START, COPIED_WEIGHT, LOADED, WORD, STORED, STORED_LANE = 150, 40, 3, 4, 5, 8
"""Instructions of a thread: once, for a weight that it copies, whose wait nothing hides (fitted), for a load
of x, for each further word of it (fitted), for results at a position, and for each of them with its pointwise
work (fitted: 3 with batch norm and ReLU6, 16 with SiLU)."""

LATENCY, PACE, ISSUE, SCHEDULERS = 400, 4.2, 1.8, 4
"""Cycles until a thread has what it loads first, cycles for an instruction of a warp that is alone on its
scheduler, cycles for an instruction where there are many (all three fitted to
`bench/results/h100_sxm/conv_strips.json`), and schedulers of a multiprocessor."""

BATCH, EXTENT = 16, 56
"""What is assumed of a batch and of an extent that a call decides."""


class StripTile(NamedTuple):
    """A block of threads.

    Channels of a thread, threads that share a position, strips, rows of a strip, outputs of a row.
    """

    vector: int
    lanes: int
    beside: int
    rows: int
    run: int

    @property
    def threads(self) -> int:
        return self.lanes * self.beside

    @property
    def channels(self) -> int:
        return self.lanes * self.vector

    def text(self) -> str:
        """Return the arguments of `mucc::conv::StripTile`."""
        return ", ".join(map(str, (*self, UNROLLED)))


class Strip(NamedTuple):
    """What a thread of a tile does for windows along two axes, and elements of so many bytes."""

    tile: StripTile
    windows: Sequence[Window]
    element_bytes: int

    @property
    def taps(self) -> int:
        return math.prod(w.size for w in self.windows)

    @property
    def seen(self) -> tuple[int, int]:
        """The lines of x that a thread loads, and the positions of each."""
        return _seen(self.tile.rows, self.windows[0]), _seen(self.tile.run, self.windows[1])

    @property
    def words(self) -> int:
        """The registers that the channels of one position of x are loaded to."""
        return self.tile.vector * self.element_bytes // 4

    @property
    def is_unrolled(self) -> bool:
        return self.taps <= UNROLLED

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self.taps * self.tile.channels * 4

    @property
    def registers(self) -> int:
        """Registers of a thread: sums, a line as numbers, those under way, weights, addresses."""
        tile, (_, positions) = self.tile, self.seen
        ahead = 2 if self.is_unrolled else 1
        weights = self.taps if self.is_unrolled else self.windows[1].size
        held = tile.rows * tile.run + LIVE * positions + weights
        return math.ceil(held * tile.vector + ahead * positions * self.words + OTHER_REGISTERS)

    def blocks(self, facts: Facts) -> int:
        """Return the blocks that a multiprocessor has registers for; each scheduler has its part of them."""
        of_warp = math.ceil(self.registers / GRANULE) * GRANULE * 32
        warps = facts.multiprocessor.registers // SCHEDULERS // of_warp * SCHEDULERS
        return warps // math.ceil(self.tile.threads / 32)

    @property
    def instructions(self) -> float:
        tile, (lines, positions) = self.tile, self.seen
        widened = 0 if self.element_bytes == 4 else tile.vector
        loads = lines * positions * (LOADED + WORD * (self.words - 1) + widened)
        outputs = tile.rows * tile.run
        read = self.taps * (1 if self.is_unrolled else tile.rows)
        stored = outputs * (STORED + STORED_LANE * tile.vector)
        copied = math.ceil(self.taps * tile.channels / tile.threads) * COPIED_WEIGHT
        return START + loads + outputs * self.taps * tile.vector + read + stored + copied

    def cycles(self, channels: int, batch: int, places: Sequence[int], facts: Facts) -> float:
        """Estimate the time of a convolution on all multiprocessors of the target's first card."""
        tile, (lines, _) = self.tile, self.seen
        strips = batch * math.ceil(places[0] / tile.rows) * math.ceil(places[1] / tile.run)
        blocks = math.ceil(strips / tile.beside) * math.ceil(channels / tile.channels)
        of_each = math.ceil(blocks / facts.devices[0].multiprocessors)
        rounds = math.ceil(of_each / self.blocks(facts))
        warps = math.ceil(of_each * math.ceil(tile.threads / 32) / SCHEDULERS)
        issued = max(ISSUE * warps * self.instructions, rounds * (LATENCY + PACE * self.instructions))
        read = strips * tile.run * self.windows[1].stride * lines * channels * self.element_bytes
        sm = facts.multiprocessor
        return max(issued, read / facts.devices[0].multiprocessors / sm.l2_bytes_per_cycle)


def tiles(channels: int) -> Iterator[StripTile]:
    """Yield all tiles that a kernel may have."""
    for vector, rows, run in itertools.product(VECTORS, ROWS, RUNS):
        lanes = lanes_of(channels // vector)
        for threads in THREADS:
            yield StripTile(vector, lanes, max(1, threads // lanes), rows, run)


def lanes_of(vectors: int) -> int:
    """Return how many threads beside each other share a position, given its vectors."""
    whole = [n for n in range(FEWEST_LANES, MOST_LANES + 1) if vectors % n == 0]
    return vectors if vectors <= MOST_LANES else max(whole, key=lambda n: (n % 32 == 0, n), default=32)


def strip_cycles(layer: Layer, facts: Facts) -> float | None:
    """Estimate the cycles of a convolution by strips on all multiprocessors; None where there are none."""
    if layer.transposed or not layer.channels_last or layer.channels != 1 or layer.outputs != 1:
        return None
    channels, windows, element_bytes = layer.groups, layer.windows, layer.element_bytes
    batch = max(1, layer.rows // math.prod(layer.places))
    tile = best_strip(channels, batch, layer.places, windows, element_bytes, facts)
    return tile and Strip(tile, windows, element_bytes).cycles(channels, batch, layer.places, facts)


def best_strip(
    channels: int, batch: int | str, places: Dims, windows: Sequence[Window], element_bytes: int, facts: Facts
) -> StripTile | None:
    """Return the tile that should be fastest for results of so many channels, each a group.

    None where no kernel has strips of them: elements have 2 or 4 bytes, channels are pieces of 16 bytes,
    there are two spatial axes, and a block's weights fit in shared memory.
    """
    if len(places) != 2 or element_bytes not in (2, 4) or channels % (WIDEST_ACCESS // element_bytes):
        return None
    known = tuple(place if isinstance(place, int) else EXTENT for place in places)
    number = batch if isinstance(batch, int) else BATCH
    return _best(channels, number, known, tuple(windows), element_bytes, facts.name)


@cache
def _best(
    channels: int,
    batch: int,
    places: tuple[int, ...],
    windows: tuple[Window, ...],
    element_bytes: int,
    target: str,
) -> StripTile | None:
    facts = get_target(target).facts
    strips = [Strip(tile, windows, element_bytes) for tile in tiles(channels)]
    fitting = [s for s in strips if fits(s, facts)]
    return min(fitting, key=lambda s: s.cycles(channels, batch, places, facts)).tile if fitting else None


def fits(strip: Strip, facts: Facts) -> bool:
    """Whether a multiprocessor has registers and shared memory for a block."""
    return strip.registers <= REGISTERS and strip.shared <= SHARED and strip.blocks(facts) >= 1


@cache
def _seen(count: int, window: Window) -> int:
    """Return the number of elements that so many neighbouring outputs see along an axis."""
    return len({u * window.stride + s * window.dilation for u in range(count) for s in range(window.size)})
