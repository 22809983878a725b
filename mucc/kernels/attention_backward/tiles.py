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
    Rows of up to 64 elements may have steps of 128 queries, too, without what `holds_operands` says.
    """
    return Tile(64, 3, 2)


def part_columns(rows: int, width: int) -> int:
    """Return the columns of the gradient of a step's queries that a warpgroup computes, of 64 rows.

    Each of the two has half of the columns, in whole chunks of a row, or half of 128 rows.
    """
    return CHUNK if rows == 128 else -(-width // CHUNK) * CHUNK // 2


def holds_operands(width: int) -> bool:
    """Whether a warpgroup has its keys, values and gradients of scores in registers, as left operands."""
    return width <= CHUNK
