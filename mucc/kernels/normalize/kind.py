"""The kind of normalize kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.interface import Answer, FormingStage, Joins, Kind, Meaning, Refused
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.lowering.inputs import Inputs
from mucc.kernels.normalize.op import NormalizeKernelOp, RowReduceOp, RowStoreOp
from mucc.kernels.normalize.placing import chain_space, is_chained, opens_chain, placed
from mucc.kernels.traffic import Traffic
from mucc.library.extents import multiply

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


REDUCTIONS = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.AMAX)


class NormalizeKind(Kind[NormalizeKernelOp]):
    """Kernels around a chain of reductions over the same axes of a space, in one pass over memory.

    Pointwise work before, between and behind the reductions runs in the kernel, on all elements or on one
    value a row: a softmax, a norm, a quantisation by rows is one such kernel.
    """

    name = "normalize"
    op = NormalizeKernelOp
    nodes = (RowReduceOp, RowStoreOp)
    stores_operands = True

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        if not isinstance(anchor, ReduceOp) or anchor.kind.data not in REDUCTIONS:
            return False
        return not _are_few(anchor) and opens_chain(anchor)

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    def space(self, anchor: AnchorOp) -> Dims:
        assert isinstance(anchor, ReduceOp)
        return chain_space(anchor)

    def placed(self, stage: FormingStage, op: Operation) -> Axes | None:
        anchor = stage.anchor
        assert isinstance(anchor, ReduceOp)
        return placed(op, anchor, stage.axes)

    def computes_with(self, anchor: AnchorOp, op: AnchorOp, inputs: Inputs) -> bool:
        assert isinstance(anchor, ReduceOp)
        if not _is_like(op, anchor):
            return False
        space = chain_space(anchor)
        common = inputs.of(anchor.operand) & inputs.of(op.operands[0])
        return any(Shaped.of(value.type).dims == space for value in common)

    def takes(self, stage: FormingStage, op: AnchorOp) -> Answer:
        anchor = stage.anchor
        assert isinstance(anchor, ReduceOp)
        if not _is_like(op, anchor):
            return Refused(f"the kernel reduces over axes {', '.join(map(str, anchor.axes.get_values()))}")
        if stage.axes[op.operands[0]] != identity(stage.space):
            return Refused("the kernel has one value a row of the operand")
        return Joins(Traffic.of(op.operands[0].type))

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.normalize.lower import lower_chain

        lower_chain(builder, stage)

    def takes_scratch(self, op: NormalizeKernelOp) -> bool:
        return op.has_long_rows

    def needs_scratch(self, op: NormalizeKernelOp) -> bool:
        return op.has_long_rows

    def interpret(self, functions: CutlassFunctions, op: NormalizeKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents, axes=op.axes.get_values())

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.normalize.meaning import row_reduce, row_store

        return {RowReduceOp: row_reduce, RowStoreOp: row_store}

    def code(self, op: NormalizeKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.normalize.emission import NormalizeCode

        return NormalizeCode(op, places)


FEW, LONG = 32, 1 << 24
"""Fewer than `FEW` rows of more than `LONG` elements: no GPU holds one of them between two reductions."""


def _are_few(anchor: ReduceOp) -> bool:
    """Whether a reduction has so few and long rows that several blocks should share each."""
    space, gone = chain_space(anchor), anchor.axes.get_values()
    rows = multiply([dim for axis, dim in enumerate(space) if axis not in gone])
    length = multiply([space[axis] for axis in gone])
    is_long = isinstance(length, str) or length > LONG
    return is_long and isinstance(rows, int) and rows < FEW


def _is_like(op: AnchorOp, anchor: ReduceOp) -> bool:
    """Whether an operation is a reduction that such kernels compute, over the rows of `anchor`."""
    return isinstance(op, ReduceOp) and op.kind.data in REDUCTIONS and is_chained(op, anchor)
