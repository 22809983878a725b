"""Tiles of convolutions that are computed as products of matrices."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """Rows and columns of a tile, the threads that compute it, and the stages of its pipeline."""

    rows: int
    columns: int
    threads: int = 256
    stages: int = 4


def tile_of(outputs: int) -> Tile:
    """Return the tile for so many channels of the result in a group, 0 where that is not known."""
    return Tile(128, next((n for n in (32, 64) if 0 < outputs <= n), 128))
