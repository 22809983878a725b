"""Tiles of attention kernels: how many queries and keys a block works on at a time."""

from __future__ import annotations

from typing import NamedTuple

DECODE_ROWS = 16
"""The rows of tiles of kernels for few queries, which always take that many queries."""


WARPGROUP_BYTES = 225 << 10
"""Shared memory of kernels on wgmma for queries, keys and values: 2 KB are for barriers and alignment."""

WARPGROUP_KEYS = 1024
"""The fewest keys of f32 that kernels on wgmma take by default: values are transposed first (decision 83)."""


class Tile(NamedTuple):
    """Queries of a block, keys of one of its steps, the warps that multiply, and steps in shared memory."""

    rows: int
    columns: int
    warps: int
    stages: int


def tile_of(width: int, result_width: int, item: int = 2) -> Tile:
    """Return the tile of kernels on mma.sync: what two steps of keys and values leave room for in 99 KB.

    `item` are the bytes of an element.
    """
    return Tile(64, 64 if max(width, result_width) * item <= 256 else 32, 4, 2)


def warpgroup_tile_of(width: int, result_width: int, *, causal: bool, plain: bool) -> Tile:
    """Return the tile of kernels on wgmma.

    A warpgroup has 64 queries. Its registers hold their scores, the weights of the step before, and results;
    where scores are computed (not `plain`), they need room for that, too.
    """
    widest = max(width, result_width)
    if widest <= 64:
        rows, columns = (192 if plain else 128), 128
    elif widest <= 128:
        rows, columns = 128, 176 if plain and not causal else 128
    else:
        rows, columns = 128, 96 if widest <= 192 else 80
    row, result_row = (128 * -(-w // 64) for w in (width, result_width))
    stages = (WARPGROUP_BYTES - rows * row) // (columns * (row + result_row))
    # Steps that are short gain by more of them ahead. A block that loads far ahead takes its next tile early.
    return Tile(rows, columns, rows // 16, min(stages, 4 if widest <= 64 else 2))


def narrow_tile_of(width: int, result_width: int, *, plain: bool) -> Tile:
    """Return the tile of kernels on wgmma of e4m3, whose values are transposed: chunks of 128 keys."""
    widest = max(width, result_width)
    rows = 192 if widest <= 64 and plain else 128
    columns = 128 if 64 < widest <= 128 else 96
    row, depth = 128 * -(-width // 128), -(-result_width // 16) * 16
    stages = (WARPGROUP_BYTES - rows * row) // (columns * row + 128 * depth)
    return Tile(rows, columns, rows // 16, min(stages, 4))


def f32_tile_of(width: int, result_width: int) -> Tile:
    """Return the tile of kernels on wgmma of f32, whose values are transposed: chunks of 32 keys."""
    rows, columns = 128, 128 if max(width, result_width) <= 64 else 64
    row, depth = 128 * -(-width // 32), -(-result_width // 16) * 16
    stages = (WARPGROUP_BYTES - rows * row) // (columns * (row + 4 * depth))
    return Tile(rows, columns, rows // 16, min(stages, 4))


def decode_tile_of(width: int, result_width: int, shared: int, *, bytewise: bool = False) -> Tile:
    """Return the tile of kernels for few queries that fits `shared` bytes: with fewer warps if need be.

    Each warp has steps of its own. One step is multiplied while the others are loaded. With `bytewise`
    TMA loads rows of e4m3, of half the bytes of 16 bits, and only these fit `shared`: what threads
    copy is converted to 16 bits, and takes more.
    """
    row, result_row = (
        128 * -(-w // 128) if bytewise else max(2 * (-(-w // 16) * 16 + 8), 128 * -(-w // 64))
        for w in (width, result_width)
    )
    for warps in (4, 2, 1):
        stages = (shared - DECODE_ROWS * row) // (warps * 16 * (row + result_row))
        if stages >= (3 if warps > 1 else 2):
            return Tile(DECODE_ROWS, 16, warps, min(stages, 6))
    raise AssertionError(f"{shared} bytes for rows of {width} and {result_width} elements")
