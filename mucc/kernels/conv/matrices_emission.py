"""C++ of convolutions by windows of one element with channels first (MatrixShape of mucc/conv.h)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.matrices import best_matrix_tile
from mucc.kernels.conv.wide import WideTile
from mucc.kernels.conv.wide_emission import WideWork
from mucc.target.facts import Facts


class MatricesWork(WideWork):
    """The text of such a kernel, and of one of mucc/conv.cuh for other calls."""

    LAUNCHER: ClassVar[str] = "conv::launch_matrices"
    SHAPE: ClassVar[str] = "MatrixShape"
    LEFT_TURNED: ClassVar[bool] = True

    def best(self, layer: Layer, facts: Facts) -> WideTile:
        return best_matrix_tile(layer, facts)

    @cached_property
    def is_mapped(self) -> bool:
        """Whether one small kernel does for other calls: for all of them."""
        return True
