"""The C++ of a convolution kernel, by its strategy."""

from __future__ import annotations

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.texts import Texts
from mucc.dialects.mu.types import Dims
from mucc.kernels.conv.direct_emission import DirectWork
from mucc.kernels.conv.emission import ConvWork
from mucc.kernels.conv.matrices_emission import MatricesWork
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.patches_emission import PatchesWork
from mucc.kernels.conv.planes_emission import PlanesWork
from mucc.kernels.conv.positions_emission import PositionsWork
from mucc.kernels.conv.tiles_emission import TilesWork
from mucc.kernels.conv.wide_emission import WideWork

WORK: dict[Strategy, type[ConvWork]] = {
    Strategy.TILES: TilesWork,
    Strategy.WARPGROUPS: WideWork,
    Strategy.MATRICES: MatricesWork,
    Strategy.PLANES: PlanesWork,
    Strategy.POSITIONS: PositionsWork,
    Strategy.PATCHES: PatchesWork,
    Strategy.DIRECT: DirectWork,
}


class ConvCode(LightCode):
    """A convolution kernel."""

    LAUNCH_HEADER = "mucc/conv_launch.h"

    def __init__(self, op: ConvKernelOp, places: Places):
        self.op, self.places = op, places
        self.work = WORK[op.strategy.data]

    @property
    def light_headers(self) -> tuple[str, ...]:
        return (self.work.HEADER,)

    @property
    def device_header(self) -> str:
        return self.work.HEADER

    def summary(self) -> str:
        op, geometry = self.op, self.op.geometry
        what = "transposed convolution" if geometry.transposed else "convolution"
        groups = f", {geometry.groups} groups" if geometry.groups > 1 else ""
        operands = f"{_shape(op.x_dims)} with {_shape(op.w_dims)}"
        return f"{op.compute.data.value} {what} of {operands}{groups}: {op.strategy.data.value}"

    def texts(self, entry: str) -> Texts:
        return self.work(self.op, self.places).texts(entry)


def _shape(dims: Dims) -> str:
    return f"[{', '.join(map(str, dims))}]"
