"""C++ of convolutions by windows as large as x (mucc/conv_positions.cuh)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.codegen.wgmma import wgmma
from mucc.kernels.conv.emission import flag
from mucc.kernels.conv.layer import layer_of_kernel
from mucc.kernels.conv.positions import best_positions
from mucc.kernels.conv.tiles_emission import TilesWork
from mucc.kernels.conv.wide import WideTile
from mucc.target import get_target


class PositionsWork(TilesWork):
    """The text of a kernel of mucc/conv_positions.cuh, and of those of mucc/conv.cuh for other calls."""

    HEADER: ClassVar[str] = "mucc/conv_positions.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_positions"

    @cached_property
    def tile(self) -> WideTile:
        """The tile of the kernel."""
        facts = get_target(self.places.program.target.data).facts
        return best_positions(layer_of_kernel(self.conv, {}), facts)

    @property
    def vector_x(self) -> bool:
        return False

    @property
    def vector_w(self) -> bool:
        return False

    @property
    def holds(self) -> bool:
        return False

    @property
    def more_constants(self) -> list[str]:
        rows, columns, stages, resident, shares = self.tile
        shape = f"{rows}, {columns}, {stages}, {resident}, {shares}, {flag(self.along_channels)}"
        return [f"using Wide = mucc::conv::PositionShape<{shape}>;"]

    @property
    def work(self) -> list[str]:
        dtype = self.conv.compute.data.value
        columns = self.tile.columns
        multiply = wgmma("multiply", dtype, columns, from_registers=False, turned=True, left_turned=True)
        return [*super().work, *multiply]

    def entries(self, entry: str) -> list[Entry]:
        """Return the kernels in the order of `launch_positions`."""
        bounds = "Op::Wide::kAllThreads, Op::Wide::kResident"
        own = self.mapped_entries(entry, "positions", "PositionMaps", bounds)
        return [*super().entries(entry), *own[: 1 + self.along_channels]]
