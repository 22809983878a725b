"""C++ of convolutions that warpgroups multiply from planes of x (mucc/conv_planes.cuh)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.codegen.wgmma import wgmma
from mucc.kernels.conv.emission import flag
from mucc.kernels.conv.layer import layer_of_kernel
from mucc.kernels.conv.planes import PlaneTile, best_plane
from mucc.kernels.conv.tiles_emission import TilesWork
from mucc.target import get_target


class PlanesWork(TilesWork):
    """The text of a kernel of mucc/conv_planes.cuh, and of those of mucc/conv.cuh for other calls."""

    HEADER: ClassVar[str] = "mucc/conv_planes.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_planes"

    @cached_property
    def tile(self) -> PlaneTile:
        """The tile of the kernel."""
        facts = get_target(self.places.program.target.data).facts
        tile = best_plane(layer_of_kernel(self.conv, {}), facts)
        assert tile is not None, "the strategy is legal"
        return tile

    @property
    def vector_w(self) -> bool:
        """Whether kernels for other calls copy pieces of weights: there is a small one instead."""
        return False

    @property
    def holds(self) -> bool:
        return False

    @property
    def more_constants(self) -> list[str]:
        tile = self.tile
        numbers = (
            *tile.places,
            tile.columns,
            tile.deep,
            *tile.box,
            tile.stages_x,
            tile.stages_w,
            tile.resident,
        )
        shape = f"{', '.join(map(str, numbers))}, {flag(self.along_channels)}"
        return [
            f"using Planes = mucc::conv::PlaneTile<{shape}>;",
            f"static constexpr int kTogether = {tile.resident};",
        ]

    @property
    def work(self) -> list[str]:
        dtype = self.conv.compute.data.value
        multiply = wgmma("multiply", dtype, self.tile.columns, from_registers=True, turned=False)
        return [*super().work, *multiply]

    def entries(self, entry: str) -> list[Entry]:
        bounds = "Op::Planes::kThreads, Op::Planes::kResident"
        planes = self.mapped_entries(entry, "planes", "PlaneMaps", bounds)
        single, *_ = super().entries(entry)
        return [single, *planes]
