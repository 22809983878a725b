"""Tiles of convolutions that warpgroups multiply: which there are, what each takes, and the best one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.tiles import STAGE_ROW
from mucc.target.facts import Facts

SHARES = (1, 2, 4)
"""Cluster sizes that may divide K; every Hopper GPU runs clusters of up to eight blocks."""

HELD, REFILL = 1.15, 3240
"""Stages that are not on their way, and cycles from a stage's release to the arrival of what a persistent
block fills it with next, where others store meanwhile."""

FILL, EPILOGUE_BYTES, L2_BANDWIDTH = 1.3e-6, 60, 8.0e12
"""Seconds from a block's start to its first product, bytes per cycle that it moves for its results, and bytes
per second that all blocks load from L2. All constants of tiles here are fitted to
`bench/results/h100_sxm/conv_tiles.json`; those of products are fitted to products."""

UNEVEN = 1.5
"""How many times as long results take where threads do not stay at their channels: columns that are no power
of two."""

MEETING = 4500
"""Cycles for a barrier of the cluster and the first reads of the partial sums of its other blocks."""

SHARED_BYTES = 10
"""Bytes per cycle that a multiprocessor reads from the shared memory of other multiprocessors."""

GROUPS = 2
"""The warpgroups of a block that multiply: as many as WideShape of mucc/conv.h has."""

ROWS = (128, 256)
COLUMNS = (32, 64, 96, 128, 192, 256)
SUMS = 64 * 256
"""Sums of a warpgroup that leave registers for everything else, where a multiprocessor has one block."""

SHARED_SUMS = SUMS // 2
"""The same where it has two."""

BY_STEP = ("e4m3",)
"""Formats of which a warpgroup has the sums of 64 rows of one step besides, which it adds itself."""

BY_STEP_SUMS = (64 * 288, 64 * 128)
"""All sums of a warpgroup for these, where a multiprocessor has one block, and two."""

STAGES = 3
"""The fewest stages: one is multiplied, one waits to be released, one is filled."""

PITCH = 8
"""Numbers that a row or column of the tile is longer by in shared memory, at most."""

ROW_BYTES, STAGE_BARRIERS, ALIGNMENT = 16, 16, 1024
"""Bytes of shared memory for a row, the barriers of a stage, and what the first stage is aligned to."""


class WideTile(NamedTuple):
    """Rows and columns of a tile, stages in shared memory, blocks to a multiprocessor, the blocks of a
    cluster that have a share of K each, and whether a block computes one tile after the other.
    """

    rows: int
    columns: int
    stages: int
    resident: int
    shares: int = 1
    is_persistent: bool = False

    @property
    def text(self) -> str:
        """Return `128x256`, `128x64, K by 4`, or `128x64, persistent`."""
        how = f", K by {self.shares}" if self.shares > 1 else ", persistent" if self.is_persistent else ""
        return f"{self.rows}x{self.columns}{how}"


def wide_tile(rows: int, columns: int, facts: Facts, compute: str = "") -> WideTile | None:
    """Return the tile of this size with as many stages as there is room for; None where it does not fit."""
    by_step = compute in BY_STEP
    sums = rows * columns // GROUPS + (64 * columns if by_step else 0)
    alone, shared = BY_STEP_SUMS if by_step else (SUMS, SHARED_SUMS)
    return staged_tile(rows, columns, 0 if sums > alone else 2 if sums <= shared else 1, facts)


def staged_tile(rows: int, columns: int, most: int, facts: Facts, fewest: int = STAGES) -> WideTile | None:
    """Return the tile of this size with the most blocks to a multiprocessor that fit, and the most stages.

    Registers have room for `most` blocks, and `fewest` stages are worth having. None if no block fits.
    """
    for resident in range(most, 0, -1):
        room = facts.shared_memory_of_each(resident)
        room -= ALIGNMENT + rows * ROW_BYTES
        stages = room // ((rows + columns) * STAGE_ROW + STAGE_BARRIERS)
        if stages >= fewest and spread_bytes(rows, columns) <= room - stages * STAGE_BARRIERS:
            return WideTile(rows, columns, stages, resident)
    return None


def persistent_tiles(rows: int, columns: int, facts: Facts, compute: str = "") -> Iterator[WideTile]:
    """Yield persistent tiles of this size, those with the most blocks to a multiprocessor first.

    A block stores a tile from shared memory while it loads the next one, so both need room at the same time.
    """
    tile = wide_tile(rows, columns, facts, compute)
    for resident in range(tile.resident if tile else 0, 0, -1):
        room = (
            facts.shared_memory_of_each(resident) - ALIGNMENT - rows * ROW_BYTES - spread_bytes(rows, columns)
        )
        if (stages := room // ((rows + columns) * STAGE_ROW + STAGE_BARRIERS)) >= 1:
            yield WideTile(rows, columns, stages, resident, is_persistent=True)


def spread_bytes(rows: int, columns: int) -> int:
    """Return the bytes of the sums of a tile in shared memory."""
    return 4 * max(rows * (columns + PITCH), columns * (rows + PITCH))


def wide_tiles(facts: Facts, compute: str = "") -> Iterator[WideTile]:
    """Yield all tiles of a target for a format."""
    for rows in ROWS:
        for columns in COLUMNS:
            if (tile := wide_tile(rows, columns, facts, compute)) is not None:
                yield from (tile._replace(shares=shares) for shares in SHARES)
                if tile.resident > 1 and (alone := staged_tile(rows, columns, 1, facts)) is not None:
                    yield from (alone._replace(shares=shares) for shares in SHARES)
            yield from persistent_tiles(rows, columns, facts, compute)


def wide_cycles(tile: WideTile, layer: Layer, facts: Facts) -> float:
    """Estimate the cycles that one multiprocessor would take alone for a layer, by tiles of this size.

    A card's multiprocessors take whole waves of tiles; what they idle counts. Blocks that begin together also
    end together: in the first wave nothing hides what comes before and behind the steps of a block, in later
    ones the steps of the other blocks of its multiprocessor do.
    """
    cost, card = facts.cost, facts.devices[0]
    rows = math.ceil(layer.rows / tile.rows)
    columns = math.ceil(layer.outputs / tile.columns)
    tiles = rows * columns * layer.groups * tile.shares
    depth = STAGE_ROW // layer.element_bytes
    steps = math.ceil(layer.taps * math.ceil(layer.channels / depth) / tile.shares)
    x, w = tile.rows * STAGE_ROW, tile.columns * STAGE_ROW
    math_cycles = 2 * tile.rows * tile.columns * depth / facts.multiprocessor.flops_per_cycle(layer.compute)
    shared = (2 * x + (tile.rows // 64 + 1) * w) / cost["smem_bytes_per_cycle"]

    def served(readers: float) -> float:
        """Return the share of loads that L2 serves where so many blocks read the same."""
        return cost["merged"] + (1 - cost["merged"]) * min(1.0, cost["few"] / readers)

    loaded = x * served(columns) + w * served(rows)
    # Few blocks do not share the bandwidth of L2 with all others.
    among = min(tiles, card.multiprocessors)
    bandwidth = min(cost["l2_bytes_per_cycle"], L2_BANDWIDTH / cost["clock"] / among)
    load = max(math_cycles, shared, loaded / bandwidth)
    fill, result_bytes = FILL * cost["clock"], layer.element_bytes + layer.behind
    stored = store_cycles(tile, result_bytes, cost)
    waves = math.ceil(tiles / (card.multiprocessors * tile.resident))
    if tile.is_persistent:
        # As many steps as there are stages are loaded while the tile before is stored.
        late = max(0, steps - tile.stages) * REFILL / tile.stages
        one = max(tile.resident * steps * load, max(steps * load, late) + stored)
        return (fill + waves * one) * card.multiprocessors
    together = min(tile.resident, math.ceil(tiles / card.multiprocessors))
    waiting = cost["latency"] / max(tile.stages - HELD, 0.5)
    one = steps * max(together * load, waiting)
    around, meeting = fill + stored, meeting_cycles(tile)
    hidden = max(0.0, around - one * (1 - 1 / together))
    return (waves * (one + meeting) + around + (waves - 1) * hidden) * card.multiprocessors


def store_cycles(tile: WideTile, result_bytes: int, cost: Mapping[str, float]) -> float:
    """Estimate the cycles of a block behind its last step, where `result_bytes` are moved for each result."""
    moved = tile.rows * tile.columns / tile.shares * result_bytes
    uneven = UNEVEN if tile.columns & (tile.columns - 1) else 1.0
    return cost["epilogue_cycles"] + uneven * moved / EPILOGUE_BYTES


def meeting_cycles(tile: WideTile) -> float:
    """Estimate the cycles in which blocks of a cluster add up their sums; none where K is not divided."""
    return MEETING + tile.rows * tile.columns * 4 / SHARED_BYTES if tile.shares > 1 else 0.0


def legal_tiles(layer: Layer, facts: Facts) -> Iterator[WideTile]:
    """Yield the tiles that compute a layer. Where channels are reduced they have all of them and all of K.

    Where moments are stored they have all of K, too.
    """
    for tile in wide_tiles(facts, layer.compute):
        has_all = tile.columns >= layer.outputs or not layer.reduced
        if has_all and (tile.shares == 1 or not (layer.reduced or layer.measured)):
            yield tile


def best_tile(layer: Layer, facts: Facts) -> WideTile:
    """Return the tile that should be fastest."""
    return min(legal_tiles(layer, facts), key=lambda tile: wide_cycles(tile, layer, facts))
