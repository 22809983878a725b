"""C++ of convolutions whose tiles warpgroups multiply (mucc/conv_wgmma.cuh)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.codegen.wgmma import wgmma
from mucc.kernels.conv.emission import flag
from mucc.kernels.conv.layer import layer_of_kernel
from mucc.kernels.conv.tiles_emission import TilesWork
from mucc.kernels.conv.wide import WideTile, best_tile
from mucc.target import get_target


class WideWork(TilesWork):
    """The text of a kernel of mucc/conv_wgmma.cuh, and of those of mucc/conv.cuh for other calls."""

    HEADER: ClassVar[str] = "mucc/conv_wgmma.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_warpgroups"

    @cached_property
    def tile(self) -> WideTile:
        """The tile of the kernel."""
        facts = get_target(self.places.program.target.data).facts
        return best_tile(layer_of_kernel(self.conv, {}), facts)

    @property
    def more_constants(self) -> list[str]:
        rows, columns, stages, resident, shares = self.tile
        shape = f"{rows}, {columns}, {stages}, {resident}, {shares}, {flag(self.along_channels)}"
        return [f"using Wide = mucc::conv::WideShape<{shape}>;"]

    @property
    def work(self) -> list[str]:
        dtype = self.conv.compute.data.value
        multiply = wgmma("multiply", dtype, self.tile.columns, from_registers=False, turned=False)
        return [*super().work, *multiply]

    def entries(self, entry: str) -> list[Entry]:
        bounds = "Op::Wide::kAllThreads, Op::Wide::kResident"
        wide = self.mapped_entries(entry, "warpgroups", "Maps<Op::Windows::kClasses>", bounds)
        return [*super().entries(entry), *wide]
