"""Tiles of shared memory, for tensors that are contiguous along another axis than the kernel's last one."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from mucc.codegen.memory import Product
from mucc.target.facts import WIDEST_ACCESS

SIDE, BYTE_SIDE = 64, 128
"""The extents of square tiles, and of those of bytes."""

WORD = 4
"""The bytes of a word of shared memory, which holds neighbouring columns."""


SMALL = 16
"""Matrices with known extents of less than 1/SMALL of a tile are read element by element, without shared
memory: several lie in the same lines of L1, and a block would transpose one only."""


class TurnedTile(NamedTuple):
    """The extents of a tile of shared memory that transposes: it is filled by columns and read by rows."""

    down: int
    across: int

    def bytes_of(self, element_bytes: int) -> int:
        """Return the bytes of shared memory that it takes, as the C++ class `Tile` has it."""
        between = self.down * element_bytes // WIDEST_ACCESS if self.down > self.across else 1
        return self.across * element_bytes // WORD * (self.down + between) * WORD


def is_worth(tile: TurnedTile, rows: Product, columns: Product) -> bool:
    """Whether matrices are not known to be too small for tiles."""
    is_known = not (rows.names or columns.names)
    return not is_known or SMALL * rows.factor * columns.factor >= tile.down * tile.across


def turned_tile(rows: Product, columns: Product, element_bytes: Collection[int]) -> TurnedTile:
    """Return the tile for matrices of elements of these sizes: a square, or as narrow as all are known to be.

    Each side is a multiple of the elements that threads move at once.
    """
    square = BYTE_SIDE if set(element_bytes) == {1} else SIDE
    least = WIDEST_ACCESS // min(element_bytes)

    def side(extent: Product) -> int:
        return square if extent.names else min(max(1 << math.ceil(math.log2(extent.factor)), least), square)

    across = side(columns)
    down = side(rows) if across == square else square * square // across
    return TurnedTile(down, square * square // down)
