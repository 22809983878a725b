"""C++ of convolutions by windows of one element with channels first (MatrixShape of mucc/conv.h)."""

from __future__ import annotations

from typing import ClassVar

from mucc.codegen.texts import Entry
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

    @property
    def vector_x(self) -> bool:
        return False

    @property
    def vector_w(self) -> bool:
        return False

    @property
    def holds(self) -> bool:
        return False

    def entries(self, entry: str) -> list[Entry]:
        single, _, *mapped = super().entries(entry)
        return [single, *mapped]
