"""Tiles of attention kernels: how many queries and keys a block works on at a time."""

from __future__ import annotations

from typing import NamedTuple

DECODE_ROWS = 16
"""The rows of tiles of kernels for few queries, which always take that many queries."""


class Tile(NamedTuple):
    """Queries of a block, keys of one of its steps, the warps that multiply, and steps in shared memory."""

    rows: int
    columns: int
    warps: int
    stages: int


def tile_of(width: int, result_width: int) -> Tile:
    """Return the tile of kernels on mma.sync: what two steps of keys and values leave room for in 99 KB."""
    return Tile(64, 64 if max(width, result_width) <= 128 else 32, 4, 2)


def warpgroup_tile_of(width: int, result_width: int, *, causal: bool, plain: bool) -> Tile:
    """Return the tile of kernels on wgmma.

    A warpgroup has 64 queries. Its registers hold their scores, the weights of the step before, and results;
    where scores are computed (not `plain`), they need room for that, too.
    """
    widest = max(width, result_width)
    if widest <= 64:
        return Tile(192, 128, 12, 2) if plain else Tile(128, 128, 8, 2)
    if widest <= 128:
        return Tile(128, 176 if plain and not causal else 128, 8, 2)
    if widest <= 192:
        return Tile(128, 96, 8, 2)
    return Tile(128, 80, 8, 2)


def decode_tile_of(width: int, result_width: int, shared: int) -> Tile:
    """Return the tile of kernels for few queries that fits `shared` bytes: with fewer warps if need be.

    Each warp has steps of its own. One step is multiplied while the others are loaded.
    """
    row, result_row = (2 * (-(-w // 16) * 16 + 8) for w in (width, result_width))
    for warps in (4, 2, 1):
        stages = (shared - DECODE_ROWS * row) // (warps * 16 * (row + result_row))
        if stages >= (3 if warps > 1 else 2):
            return Tile(DECODE_ROWS, 16, warps, min(stages, 6))
    raise AssertionError(f"{shared} bytes for rows of {width} and {result_width} elements")
