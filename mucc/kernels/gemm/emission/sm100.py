"""Contraction kernels for data-centre Blackwell: CUTLASS's Sm100 collectives, with the visitors of Sm90's."""

from __future__ import annotations

from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import CUTLASS_TYPES
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.kernels.gemm.emission.gemm import cutlass_headers, shape_type
from mucc.kernels.gemm.emission.graph import Epilogue
from mucc.kernels.gemm.emission.sm90 import NO_MATRIX, Sm90Gemm

_SCHEDULES = {
    Mainloop.ONE_SM: ("KernelTmaWarpSpecialized1SmSm100", "TmaWarpSpecialized1Sm"),
    Mainloop.TWO_SM: ("KernelTmaWarpSpecialized2SmSm100", "TmaWarpSpecialized2Sm"),
}


class Sm100Gemm(Sm90Gemm):
    """Operands by TMA, products by tcgen05 into tensor memory, an epilogue of visitors.

    In the language a tile is what one thread block computes. CUTLASS counts that of a matrix instruction,
    which two blocks of a cluster may work on together.
    """

    @property
    def headers(self) -> Headers:
        return self.launched(cutlass_headers("mucc/gemm_sm100.cuh"), "CUTLASS_ENABLE_GDC_FOR_SM100")

    def build_epilogue(self) -> Epilogue:
        element_d = CUTLASS_TYPES[self.d.memory.type.dtype] if self.d else "void"
        return Epilogue(self.op, self.problem, self.namer, element_d, self.canonical).build()

    def types(self) -> list[str]:
        """CUTLASS's types."""
        kernel_schedule, epilogue_schedule = _SCHEDULES[self.mainloop]
        m, n, k = self.tile.sizes
        together = 2 if self.mainloop is Mainloop.TWO_SM else 1
        element_d = "ElementD" if self.d else NO_MATRIX
        lines = [
            *self.operand_types(),
            f"using MmaShape = {shape_type(together * m, n, k)};",
            f"using EpilogueSchedule = cutlass::epilogue::{epilogue_schedule};",
        ]
        if self.uses_tiles:
            tiles = f"MmaShape, ElementC, StrideC, {element_d}, StrideD, EpilogueSchedule"
            lines.append(f"using Tiles = mucc::gemm::Sm100Tiles<{tiles}>;")
        epilogue = self.built_epilogue("Sm100", "MmaShape", "mucc::gemm::Rounded<Visitor>")
        return [*lines, *self.visitor(), *self.collectives(epilogue, "Sm100", kernel_schedule, "MmaShape")]
