"""Tiles of convolutions by windows as large as x, whose positions warpgroups add up: gradients of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.wide import (
    ALIGNMENT,
    GROUPS,
    MEETING,
    PITCH,
    ROW_BYTES,
    SHARED_BYTES,
    SHARED_SUMS,
    STAGE_BARRIERS,
    STAGES,
    SUMS,
)
from mucc.target.facts import Facts

CHUNK = 64
"""Elements of the batch, and of channels of the result, in the 128 bytes that the copy engine swizzles; and
the positions of a step."""

ROW = 128
"""Bytes of a chunk for one position."""

ROWS, COLUMNS = (64, 128, 256), (64, 128, 192, 256)

SHARES = (1, 2, 4, 8)
"""Cluster sizes that may divide K. With clusters of 6 tiles of 128x256 took 62 and 437 us on an H100, with
clusters of 4 they took 41 and 318.
"""

FORMATS = ("bf16", "f16")
"""The formats whose rows and columns wgmma takes innermost."""

MOST_PLACES, FEWEST_TAPS = 64, 16
"""The most places of a result that are few, if the window has no fewer positions, and the fewest of these."""


class PositionTile(NamedTuple):
    """Rows and columns of a tile, stages in shared memory, blocks to a multiprocessor, and the blocks of a
    cluster that have a share of K each.
    """

    rows: int
    columns: int
    stages: int
    resident: int
    shares: int

    @property
    def text(self) -> str:
        """Return `128x64`, or `128x64, K by 8`."""
        return f"{self.rows}x{self.columns}{f', K by {self.shares}' if self.shares > 1 else ''}"


def is_gradient(layer: Layer) -> bool:
    """Whether a convolution has few places, and a window with many positions."""
    places = math.prod(layer.places)
    return not layer.transposed and places <= min(MOST_PLACES, layer.taps) and layer.taps >= FEWEST_TAPS


def refused(layer: Layer) -> str | None:
    """Return why wgmma and the copy engine do not take a layer, as a clause; None if they do."""
    if layer.compute not in FORMATS:
        return f"wgmma takes rows innermost of {' and '.join(FORMATS)} only"
    if not is_gradient(layer):
        return "the window is not much larger than the result"
    if layer.groups > 1:
        return "channels are in groups"
    if layer.reduced or layer.pooled or layer.measured:
        return "neighbours in a tile are elements of the batch"
    if not layer.batch or layer.batch % 8 or layer.outputs % 8:
        return "the batch or the channels of the result are no multiple of 16 bytes"
    if any(w.dilation > 8 for w in layer.windows):
        return "the copy engine takes steps of up to 8"
    return None


def position_tiles(facts: Facts) -> Iterator[PositionTile]:
    """Yield all tiles of a target."""
    for rows in ROWS:
        for columns in COLUMNS:
            sums = max(rows // GROUPS, CHUNK) * columns
            if sums > SUMS:
                continue
            for resident in (2, 1) if sums <= SHARED_SUMS else (1,):
                room = facts.shared_memory_of_each(resident) - ALIGNMENT - rows * ROW_BYTES
                stages = room // ((rows + columns) * ROW + STAGE_BARRIERS)
                spread = 4 * max(rows * (columns + PITCH), columns * (rows + PITCH))
                if stages > STAGES and spread <= room - stages * STAGE_BARRIERS:
                    yield from (PositionTile(rows, columns, stages, resident, n) for n in SHARES)
                    break


def position_cycles(tile: PositionTile, layer: Layer, facts: Facts) -> float:
    """Estimate the cycles that one multiprocessor would take alone for a layer, by tiles of this size."""
    cost, card = facts.cost, facts.devices[0]
    chunks = math.ceil(layer.batch / CHUNK) * math.prod(layer.places)
    rows, columns = math.ceil(chunks * CHUNK / tile.rows), math.ceil(layer.outputs / tile.columns)
    steps = math.ceil(math.ceil(layer.taps * layer.channels / CHUNK) / tile.shares)
    loaded = (tile.rows + tile.columns) * ROW
    products = 2 * tile.rows * tile.columns * CHUNK / facts.multiprocessor.flops_per_cycle(layer.compute)
    shared = (loaded + max(tile.rows // 64, 1) * tile.columns * ROW) / cost["smem_bytes_per_cycle"]
    blocks = rows * columns * tile.shares
    most = math.ceil(blocks / card.multiprocessors)  # blocks of the multiprocessor with most of them
    together = min(most, tile.resident)
    # Few blocks do not share the bandwidth of L2 with all others.
    among = min(blocks, card.multiprocessors)
    bandwidth = min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / cost["clock"] / among)
    waiting = cost["latency"] / max(tile.stages - cost["held"], 0.5) / together
    one = steps * max(products, shared, loaded / bandwidth, waiting)
    around = cost["fill"] * cost["clock"] + cost["epilogue_cycles"]
    around += tile.rows * tile.columns / tile.shares * 4 / cost["epilogue_bytes_per_cycle"]
    if tile.shares > 1:
        around += MEETING + tile.rows * tile.columns * 4 / SHARED_BYTES
    return (most * one + math.ceil(most / tile.resident) * around) * card.multiprocessors


def best_positions(layer: Layer, facts: Facts) -> PositionTile:
    """Return the tile that should be fastest."""
    return min(position_tiles(facts), key=lambda tile: position_cycles(tile, layer, facts))
