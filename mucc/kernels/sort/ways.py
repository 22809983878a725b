"""Choose how a row is sorted: threads and elements of each, or picking the largest elements."""

from __future__ import annotations

from typing import NamedTuple

from mucc.dialects.mu.types import Dim


class Way(NamedTuple):
    """A way to sort a row: `lanes` threads with `items` elements each, or 0 and 0 to pick the first few."""

    lanes: int = 0
    items: int = 0

    @property
    def longest(self) -> int | None:
        """The most elements that a row may have; None for any number."""
        return self.lanes * self.items or None

    def takes(self, extent: Dim) -> bool:
        """Whether it is known that rows of an extent are short enough."""
        return self.longest is None or (isinstance(extent, int) and extent <= self.longest)


_SORTS = (Way(4, 8), Way(16, 8), Way(32, 16), Way(64, 16), Way(128, 16), Way(256, 16))
_PICK = Way()

LONGEST = _SORTS[-1].lanes * _SORTS[-1].items
"""The most elements of a row that is sorted."""

MOST_PICKED = 32
"""The most elements that are picked from a row of any length: one for each lane of a warp."""

_SHORT = 3
"""The number of ways within a warp, which are faster than picking."""


def ways(extent: Dim, count: int | None) -> tuple[Way, ...]:
    """Return the ways that a kernel has, those for short rows first; one where the extent is known.

    The result is empty where rows of this extent are too long.
    """
    found = (*_SORTS[:_SHORT], _PICK) if count is not None and count <= MOST_PICKED else _SORTS
    return found if isinstance(extent, str) else tuple(w for w in found if w.takes(extent))[:1]
