"""The kind of reduction kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.lowering.inputs import Inputs
from mucc.kernels.reduce.claims import claims, shares_pass
from mucc.kernels.reduce.op import ArgReducedOp, ReducedOp, ReduceKernelOp, ReduceStoreOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class ReduceKind(Kind[ReduceKernelOp]):
    """Kernels that reduce computed values over some axes of a space, in one pass over memory.

    Pointwise work on results joins the kernel, and so do further reductions of its inputs over the same axes.
    """

    name = "reduce"
    op = ReduceKernelOp
    nodes = (ReducedOp, ArgReducedOp, ReduceStoreOp)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return claims(anchor)

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    def computes_with(self, anchor: AnchorOp, op: AnchorOp, inputs: Inputs) -> bool:
        return shares_pass(anchor, op, inputs)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.reduce.lower import lower_reduction

        lower_reduction(builder, stage)

    def takes_scratch(self, op: ReduceKernelOp) -> bool:
        return True

    def needs_scratch(self, op: ReduceKernelOp) -> bool:
        return True

    def interpret(self, functions: CutlassFunctions, op: ReduceKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents, axes=op.axes.get_values())

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.reduce.meaning import MEANINGS

        return MEANINGS

    def code(self, op: ReduceKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.reduce.emission import ReduceCode

        return ReduceCode(op, places)
