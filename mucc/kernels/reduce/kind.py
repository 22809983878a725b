"""The kind of reduction kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.reduce.op import ReduceKernelOp, ReduceStoreOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


REDUCTIONS = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.AMAX)


class ReduceKind(Kind[ReduceKernelOp]):
    """Kernels that reduce a computed value over some axes of a space."""

    name = "reduce"
    op = ReduceKernelOp
    nodes = (ReduceStoreOp,)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, ReduceOp) and anchor.kind.data in REDUCTIONS

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.reduce.lower import lower_reduction

        lower_reduction(builder, stage)

    def interpret(self, functions: CutlassFunctions, op: ReduceKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents, axes=op.axes.get_values())

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        def reduce(functions: CutlassFunctions, op: ReduceStoreOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return functions.reduced(op, args, functions.launch.axes)

        return {ReduceStoreOp: reduce}

    def code(self, op: ReduceKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.reduce.emission import ReduceCode

        return ReduceCode(op, places)
