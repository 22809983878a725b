"""Contractions that convert narrow weights: `sm90_gemm` with a mainloop of ours (mucc/mixed.cuh)."""

from __future__ import annotations

from dataclasses import replace

from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import VIEW_TYPES, EmissionError
from mucc.dialects.mu.types import Shaped
from mucc.kernels.gemm.emission.graph import Epilogue
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.emission.sm90 import Sm90Gemm


class MixedGemm(Sm90Gemm):
    """A contraction whose first operand, as the kernel sees it, is converted in registers."""

    @property
    def headers(self) -> Headers:
        headers = super().headers
        return replace(headers, more=("mucc/mixed.cuh", *headers.more))

    def build_epilogue(self) -> Epilogue:
        if self.op.narrow != int(self.exchanged):
            raise EmissionError("the operand that is converted is not the kernel's first")
        epilogue = self._built_epilogue()
        self.group_scales: list[tuple[str, str]] = []
        for value in self.op.scales:
            memory, (row, group) = self.places.view(value, Shaped.of(value.type).dims)
            strides = f"{{{row.stride}, {group.stride}, 0}}"
            place = epilogue.operand(f"{{{memory.address}, {strides}}}")
            self.group_scales.append((VIEW_TYPES[memory.type.dtype], place))
        return epilogue

    @property
    def mainloop_wrapper(self) -> str:
        types = [type for type, _ in self.group_scales]
        scale, zero = (*types, "void", "void")[:2]
        return f"mucc::gemm::MixedMainloop<{self.op.group}, {scale}, {zero}, "

    def _scale_arguments(self) -> list[str]:
        return [
            f"to.mainloop.{member} = {{{place}.as<{type} const>(), {place}.stride[0], {place}.stride[1]}};"
            for member, (type, place) in zip(("scales", "zeros"), self.group_scales, strict=False)
        ]

    def multiplied(self, operand: Matrix) -> str:
        return self.op.compute.data.value

    def _stride(self, side: str) -> str:
        return f"Stride{side}"

    def _stage_count(self) -> str:
        return f"mucc::gemm::Stages<{self.stages}>"
