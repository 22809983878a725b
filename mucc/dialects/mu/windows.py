"""Arithmetic of sliding windows: their positions along an axis, and the elements they cover."""

from __future__ import annotations

from typing import NamedTuple

LARGEST = 2**31 - 1
"""The largest position of an element along an axis, padding included, that kernels reckon with."""

BEYOND = 8
"""Positions behind the last one at which threads look for elements, to find none."""


class Window(NamedTuple):
    """A window along one axis: `size` taps `dilation` apart, moved by `stride`, with `pad` at both ends."""

    size: int
    stride: int = 1
    pad: int = 0
    dilation: int = 1

    @property
    def reach(self) -> int:
        """The extent of a window, from its first tap to its last."""
        return self.dilation * (self.size - 1) + 1

    @property
    def keeps(self) -> bool:
        """Whether the number of positions equals the number of elements, for every extent."""
        return self.stride == 1 and 2 * self.pad == self.reach - 1

    def is_beyond(self, extent: int) -> bool:
        """Whether positions of elements that the window covers along an axis need more than 32 bits."""
        return extent + 2 * self.pad + BEYOND * self.stride + self.reach > LARGEST

    def places(self, extent: int, ceil: bool = False) -> int:
        """Count the positions of the window along an axis; 0 where it does not fit.

        With `ceil`, the last window may extend past the padding if it begins before the end padding, as in
        torch, even if it is the only one.
        """
        room = extent + 2 * self.pad - self.reach
        places = max(0, (room + (self.stride - 1 if ceil else 0)) // self.stride + 1)
        if ceil and (places - 1) * self.stride >= extent + self.pad:
            places -= 1
        return places

    def seen(self, extent: int, places: int) -> list[int]:
        """Count the elements that the window covers at each position, without padding."""
        counts: list[int] = []
        for place in range(places):
            first = place * self.stride - self.pad
            taps = (first + tap * self.dilation for tap in range(self.size))
            counts.append(sum(0 <= tap < extent for tap in taps))
        return counts

    def count_seen(self, extent: int, places: int) -> int:
        """Count the elements that the window covers at all positions together, without padding."""
        # Taps and positions are alike: each moves through the axis by a step of its own.
        (fewer, step), (more, other) = sorted(((self.size, self.dilation), (places, self.stride)))
        count = 0
        for index in range(fewer):
            first = self.pad - index * step
            begin, end = -(-first // other), (extent - 1 + first) // other
            count += max(0, min(end, more - 1) - max(begin, 0) + 1)
        return count

    def covered(self, extent: int, places: int) -> list[int]:
        """Count the elements and paddings that the window covers at each position."""
        firsts = (place * self.stride - self.pad for place in range(places))
        return [min(first + self.size, extent + self.pad) - first for first in firsts]

    def spread(self, extent: int, more: int = 0) -> int:
        """Compute the extent of a transposed convolution's result, with `more` elements at the end."""
        return (extent - 1) * self.stride - 2 * self.pad + self.reach + more
