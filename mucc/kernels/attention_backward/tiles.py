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


def tile_of(width: int) -> Tile:
    """Return the tile for rows of so many elements.

    A warpgroup's registers hold the gradients of 64 keys and values, and of scores with a step's queries.
    """
    return Tile(128 if width <= CHUNK else 64, 3, 2)
