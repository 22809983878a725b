"""Reduction kernels as a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind
from mucc.kernels.reduce.op import ReduceKernelOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


REDUCTIONS = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.AMAX)


class ReduceKind(Kind[ReduceKernelOp]):
    """Kernels that reduce what they compute over some axes of a space."""

    name = "reduce"
    op = ReduceKernelOp

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, ReduceOp) and anchor.kind.data in REDUCTIONS

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.reduce.lower import lower_reduction

        lower_reduction(builder, stage)

    def interpret(self, functions: CutlassFunctions, op: ReduceKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents, axes=op.axes.get_values())

    def code(self, op: ReduceKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.reduce.emission import ReduceCode

        return ReduceCode(op, places)
