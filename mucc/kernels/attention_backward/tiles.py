"""Tiles of kernels for gradients of attention."""

from __future__ import annotations

from typing import NamedTuple

CHUNK = 64
"""Elements of a row in shared memory: 128 bytes."""


WIDEST_KEPT = 96
"""Elements of a row up to which gradients of scores stay in registers. With 128 there is no room (C7512)."""


class Tile(NamedTuple):
    """Queries of a step, and steps of queries and of gradients in shared memory; a block has 128 keys.

    With `keeps_changes` gradients of scores are multiplied from registers for those of keys.
    """

    rows: int
    query_stages: int
    gradient_stages: int
    keeps_changes: bool


def tile_of(width: int, *, stores_changes: bool = False) -> Tile:
    """Return the tile for rows of so many elements.

    A warpgroup's registers hold the gradients of 64 keys and values, and of scores with a step's queries.
    With 128 queries a step they have no room for the addresses of gradients of scores that are stored.
    """
    rows = 128 if width <= CHUNK and not stores_changes else 64
    return Tile(rows, 3, 2, width <= WIDEST_KEPT and not stores_changes)


def part_columns(rows: int, width: int) -> int:
    """Return how many columns of the gradients of a step's queries a warpgroup has: `kPartColumns` in C++."""
    return CHUNK // 2 if rows == CHUNK and width <= CHUNK else CHUNK
