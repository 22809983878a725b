"""Find values of a convolution's pointwise work that are the same for all positions of a channel."""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, IndexOp, LoadOp, YieldOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.dialects.mu.ops.views import IndexMapOp, RegroupOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.kernels.conv.op import ConvKernelOp


def per_channel(op: ConvKernelOp) -> set[SSAValue]:
    """Return the values in an epilogue that are the same at all positions of a channel."""
    found: set[SSAValue] = set()
    for node in op.nodes:
        if _reads_channels(op, node) or (isinstance(node, ComputeOp) and found.issuperset(node.inputs)):
            found.add(node.results[0])
    return found


def _reads_channels(op: ConvKernelOp, node: Operation) -> bool:
    """Whether a node reads a number that all positions of a channel share."""
    if isinstance(node, IndexOp):
        return node.axis.value.data == op.channel_axis
    if not isinstance(node, LoadOp):
        return False
    if not isinstance(node.source.type, TensorType):
        return True
    view, dims = view_of(node.source), Shaped.of(node.source.type).dims
    if view.rows is not None or isinstance(view.base.owner, IndexMapOp | RegroupOp):
        return False
    first = len(op.extents) - len(dims)
    return all(dim == 1 for axis, dim in enumerate(dims, first) if axis != op.channel_axis)


def shared_of_body(node: ComputeOp, known: set[SSAValue]) -> list[SSAValue]:
    """Return what the rest of a body takes of the values in it that follow from the inputs in `known` alone.

    Constants are no such values, nor are numbers of other types than f32, which no node has as its value.
    """
    block = node.body.block
    shared: set[SSAValue] = {
        arg for arg, given in zip(block.args, node.inputs, strict=True) if given in known
    }
    constant: set[SSAValue] = set()
    for op in block.ops:
        if isinstance(op, YieldOp):
            continue
        value = op.results[0]
        if isinstance(op, ConstantOp) or constant.issuperset(op.operands):
            constant.add(value)
        elif value.type == f32 and (shared | constant).issuperset(op.operands):
            shared.add(value)
    taken = (v for op in block.ops if not shared.intersection(op.results) for v in op.operands)
    return [v for v in dict.fromkeys(taken) if v in shared and isinstance(v.owner, Operation)]
