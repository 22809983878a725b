"""C++ of values with one element a row: where they are stored, and in which order they are computed."""

from __future__ import annotations

from mucc.codegen.across import AcrossWork
from mucc.codegen.memory import ZERO
from mucc.codegen.pointwise import Operand
from mucc.dialects.mu.types import Shaped
from mucc.kernels.normalize.op import RowReduceOp, RowStoreOp


def row_output(work: AcrossWork, node: RowStoreOp) -> Operand:
    """Return an output with one element a row, with its strides over the space."""
    operand = work.output(node.destination, Shaped.of(node.destination.type).dims)
    strides = [ZERO] * len(work.space)
    for axis, stride in zip(node.axes.get_values(), operand.strides, strict=True):
        if axis >= 0:
            strides[axis] = stride
    return Operand(operand.member, operand.memory, strides)


def phases_of(work: AcrossWork) -> list[list[RowReduceOp]]:
    """Return the reductions by phase: each needs results of earlier phases only."""
    depths: dict[RowReduceOp, int] = {}
    for op in work.lines:
        if isinstance(op, RowReduceOp):
            before = (o for o in work.nodes_for([op.value]) if isinstance(o, RowReduceOp))
            depths[op] = max((depths[o] + 1 for o in before), default=0)
    return [[op for op, d in depths.items() if d == k] for k in range(max(depths.values(), default=-1) + 1)]
