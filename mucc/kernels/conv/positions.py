"""Tiles of convolutions by windows as large as x, as products over positions by wgmma: weight gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.tiles import STAGE_ROW
from mucc.kernels.conv.wide import GROUPS, SHARED_SUMS, STAGES, SUMS, WideTile, meeting_cycles, staged_tile
from mucc.target.facts import WIDEST_ACCESS, Facts

CHUNK = 64
"""Elements of the batch, and of channels of the result, in the 128 bytes that TMA swizzles; and
the positions of a step."""

ROWS, COLUMNS = (64, 128, 256), (64, 128, 192, 256)

SHARES = (1, 2, 4, 8)
"""Cluster sizes that may divide K. With clusters of 6 tiles of 128x256 took 62 and 437 us on an H100, with
clusters of 4 they took 41 and 318.
"""

FORMATS = ("bf16", "f16")
"""The formats whose rows and columns wgmma takes innermost."""

MOST_PLACES, FEWEST_TAPS = 64, 16
"""The most places of a result that are few, if the window has no fewer positions, and the fewest of these."""

FEWEST_STAGES = STAGES + 1
"""The fewest stages: the two warpgroups of a tile of 64 rows multiply a step each at the same time."""

LONGEST_STEP = 8
"""The most elements from one position of a tensor map to the next: the limit of its `elementStrides`."""


def is_gradient(layer: Layer) -> bool:
    """Whether a convolution has few places, and a window with many positions."""
    places = math.prod(layer.places)
    return not layer.transposed and places <= min(MOST_PLACES, layer.taps) and layer.taps >= FEWEST_TAPS


def refused(layer: Layer) -> str | None:
    """Return why wgmma and TMA do not take a layer, as a clause; None if they do."""
    if layer.compute not in FORMATS:
        return f"wgmma takes rows innermost of {' and '.join(FORMATS)} only"
    if not is_gradient(layer):
        return "the window is not much larger than the result"
    if layer.groups > 1:
        return "channels are in groups"
    if layer.reduced or layer.pooled or layer.measured:
        return "neighbours in a tile are elements of the batch"
    vector = WIDEST_ACCESS // layer.element_bytes
    if not layer.batch or layer.batch % vector or layer.outputs % vector:
        return "the batch or the channels of the result are no multiple of 16 bytes"
    if any(w.dilation > LONGEST_STEP for w in layer.windows):
        return f"TMA takes steps of up to {LONGEST_STEP}"
    return None


def position_tiles(facts: Facts) -> Iterator[WideTile]:
    """Yield all tiles of a target."""
    for rows in ROWS:
        for columns in COLUMNS:
            sums = max(rows // GROUPS, CHUNK) * columns
            most = 0 if sums > SUMS else 2 if sums <= SHARED_SUMS else 1
            if (tile := staged_tile(rows, columns, most, facts, FEWEST_STAGES)) is not None:
                yield from (tile._replace(shares=shares) for shares in SHARES)


def position_cycles(tile: WideTile, layer: Layer, facts: Facts) -> float:
    """Estimate the cycles that one multiprocessor would take alone for a layer, by tiles of this size."""
    cost, card = facts.cost, facts.devices[0]
    chunks = math.ceil(layer.batch / CHUNK) * math.prod(layer.places)
    rows, columns = math.ceil(chunks * CHUNK / tile.rows), math.ceil(layer.outputs / tile.columns)
    steps = math.ceil(math.ceil(layer.taps * layer.channels / CHUNK) / tile.shares)
    loaded = (tile.rows + tile.columns) * STAGE_ROW
    products = 2 * tile.rows * tile.columns * CHUNK / facts.multiprocessor.flops_per_cycle(layer.compute)
    shared = (loaded + max(tile.rows // 64, 1) * tile.columns * STAGE_ROW) / cost["smem_bytes_per_cycle"]
    blocks = rows * columns * tile.shares
    most = math.ceil(blocks / card.multiprocessors)  # blocks of the multiprocessor with most of them
    together = min(most, tile.resident)
    # Few blocks do not share the bandwidth of L2 with all others.
    among = min(blocks, card.multiprocessors)
    bandwidth = min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / cost["clock"] / among)
    waiting = cost["latency"] / max(tile.stages - cost["held"], 0.5) / together
    one = steps * max(products, shared, loaded / bandwidth, waiting)
    stored = tile.rows * tile.columns / tile.shares * 4 / cost["epilogue_bytes_per_cycle"]
    around = cost["fill"] * cost["clock"] + cost["epilogue_cycles"] + stored + meeting_cycles(tile)
    return (most * one + math.ceil(most / tile.resident) * around) * card.multiprocessors


def best_positions(layer: Layer, facts: Facts) -> WideTile:
    """Return the tile that should be fastest."""
    return min(position_tiles(facts), key=lambda tile: position_cycles(tile, layer, facts))
