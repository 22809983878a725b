"""Tiles of convolutions that are computed as products of matrices."""

from __future__ import annotations

from typing import NamedTuple

ROWS, THREADS = 128, 128
STAGE_ROW = 128
"""Bytes along K of a row of a stage."""
TABLE_ROW = 40
"""Bytes that a block knows of each row besides: see TileShape in mucc/conv.h."""


class Tile(NamedTuple):
    """Rows and columns of a tile, the threads that compute it, and the stages of its pipeline."""

    rows: int
    columns: int
    threads: int
    stages: int


def tile_of(outputs: int, copies: bool, shared_memory: int, reduced: bool = False) -> Tile:
    """Return the tile for so many channels of the result in a group, 0 where that is not known.

    `copies` says that x is copied in whole pieces; else it passes through registers, which then hold fewer
    sums. `shared_memory` are the bytes that a block may have. Where channels are `reduced` a tile has all of
    them, up to 128.
    """
    columns = next((n for n in (32, 64) if 0 < outputs <= n), 128 if copies or reduced else 64)
    stages = (shared_memory - ROWS * TABLE_ROW) // ((ROWS + columns) * STAGE_ROW)
    return Tile(ROWS, columns, THREADS, min(3, stages))
