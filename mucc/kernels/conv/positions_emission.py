"""C++ of convolutions by windows as large as x (mucc/conv_positions.cuh)."""

from __future__ import annotations

from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.positions import best_positions
from mucc.kernels.conv.staged_emission import BOUNDS, StagedWork
from mucc.kernels.conv.wide import WideTile
from mucc.target.facts import Facts


class PositionsWork(StagedWork):
    """The text of a kernel of mucc/conv_positions.cuh, and of those of mucc/conv.cuh for other calls."""

    HEADER: ClassVar[str] = "mucc/conv_positions.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_positions"
    SHAPE: ClassVar[str] = "PositionShape"
    LEFT_TURNED: ClassVar[bool] = True
    TURNED: ClassVar[bool] = True

    def best(self, layer: Layer, facts: Facts) -> WideTile:
        return best_positions(layer, facts)

    @property
    def vector_x(self) -> bool:
        return False

    @property
    def vector_w(self) -> bool:
        return False

    @property
    def holds(self) -> bool:
        return False

    def mapped(self, entry: str) -> list[Entry]:
        own = self.mapped_entries(entry, "positions", "PositionMaps", BOUNDS)
        return own[: 1 + self.along_channels]
