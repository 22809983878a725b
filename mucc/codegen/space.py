"""Merge adjacent axes of the space that a kernel runs over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mucc.codegen.memory import Product

if TYPE_CHECKING:
    from mucc.codegen.pointwise import Operand


class Space:
    """The axes of a kernel's space, with adjacent axes merged where all tensors allow it."""

    def __init__(self, extents: Sequence[Product], groups: Sequence[Sequence[int]]):
        self.extents = list(extents)
        self.groups = [[a for a in group if not self.extents[a].is_one] for group in groups]

    def merge(self, operands: Sequence[Operand]) -> list[list[list[int]]]:
        """Return the merged axes of each group; each is a list of original axes, slowest first."""
        merged: list[list[list[int]]] = []
        for group in self.groups:
            runs: list[list[int]] = []
            for axis in group:
                if runs and all(self._follow(o.strides, runs[-1][-1], axis) for o in operands):
                    runs[-1].append(axis)
                else:
                    runs.append([axis])
            merged.append(runs or [[]])
        return merged

    def _follow(self, strides: Sequence[Product], slower: int, faster: int) -> bool:
        return strides[slower] == strides[faster] * self.extents[faster]
