"""Tiles of kernels for gradients of attention."""

from __future__ import annotations

from typing import NamedTuple

CHUNK = 64
"""Elements of a row in shared memory: 128 bytes."""


class Tile(NamedTuple):
    """Queries of a step, and steps of queries and of gradients in shared memory; a block has 128 keys."""

    rows: int
    query_stages: int
    gradient_stages: int


def tile_of(width: int, *, stores_changes: bool = False) -> Tile:
    """Return the tile for rows of so many elements.

    A warpgroup's registers hold the gradients of 64 keys and values, and of scores with a step's queries.
    With 128 queries a step they have no room for the addresses of gradients of scores that are stored.
    """
    return Tile(128 if width <= CHUNK and not stores_changes else 64, 3, 2)


def part_columns(rows: int, width: int) -> int:
    """Return how many columns of the gradients of a step's queries a warpgroup has: `kPartColumns` in C++."""
    return CHUNK // 2 if rows == CHUNK and width <= CHUNK else CHUNK
