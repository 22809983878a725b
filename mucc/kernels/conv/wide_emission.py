"""C++ of convolutions whose tiles warpgroups multiply (mucc/conv_wgmma.cuh)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.kernels.conv.emission import AXES, Operand
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.staged_emission import BOUNDS, StagedWork
from mucc.kernels.conv.tiles_emission import TilesWork
from mucc.kernels.conv.wide import WideTile, best_tile
from mucc.target.facts import Facts

CORNER_BITS, MOST_STEP = 16, 8
"""Bits of a corner of TMA's box of positions, for all axes together, and the most positions between two that
it reads: those of `course_fits` in mucc/conv_launch.h."""


class WideWork(StagedWork):
    """The text of a kernel of mucc/conv_wgmma.cuh, and of those of mucc/conv.cuh for other calls."""

    HEADER: ClassVar[str] = "mucc/conv_wgmma.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_warpgroups"
    SHAPE: ClassVar[str] = "WideShape"
    LEFT_TURNED: ClassVar[bool] = False

    def best(self, layer: Layer, facts: Facts) -> WideTile:
        return best_tile(layer, facts)

    @cached_property
    def is_mapped(self) -> bool:
        """Whether TMA takes x and the weights in all calls in which they are aligned to 16 bytes."""
        return all(map(self._has_positive_strides, (self.x, self.w))) and self._has_near_corners

    def _has_positive_strides(self, operand: Operand) -> bool:
        """Whether no axis of an operand is repeated, reversed or the caller's.

        Strides that are made of extents are positive, since calls with empty tensors are refused.
        """
        extents = self.places.dim_names.values()
        return all(
            self.places.extent(dim).is_one or stride.is_positive(extents)
            for dim, stride in zip(operand.dims, operand.strides, strict=True)
        )

    @property
    def _has_near_corners(self) -> bool:
        """Whether the corners of TMA's box are as near to those of x, and its positions to each other, as
        `course_fits` in mucc/conv_launch.h wants; false where a call decides."""
        axes = len(self.space) - 2
        nearest = 1 << (CORNER_BITS // axes - 1)
        places = self.conv.places
        out = [1] * (AXES - len(places)) + list(places)
        for window, extent, low, count in zip(self.windows, out, *self.present(), strict=True):
            if not isinstance(extent, int) or low.names or count.names:
                return False
            reach, step = (window.size - 1) * window.dilation, window.stride
            if self.geometry.transposed:  # those of a class are next to each other
                outs, step, first = math.ceil(extent / step), 1, reach + window.pad
            else:
                outs, first = extent, window.pad
            upper = (outs - 1) * step - (count.factor - 1)
            farthest = max(first + low.factor, first + reach, first + abs(upper - low.factor) + 1)
            if farthest >= nearest or step > MOST_STEP:
                return False
        return True

    @property
    def vector_x(self) -> bool:
        return super().vector_x and not self.is_mapped

    @property
    def vector_w(self) -> bool:
        return super().vector_w and not self.is_mapped

    @property
    def holds(self) -> bool:
        return super().holds and not self.is_mapped

    def entries(self, entry: str) -> list[Entry]:
        """Return the kernels in the order of `launch_warpgroups`: for other calls a small one may do."""
        others = TilesWork.entries(self, entry)
        return [*(others[:1] if self.is_mapped else others), *self.mapped(entry)]

    def mapped(self, entry: str) -> list[Entry]:
        return self.mapped_entries(entry, "warpgroups", "Maps<Op::Windows::kClasses>", BOUNDS)
