"""Elements that are computed from their indices, in the bodies of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from mucc.dialects.cutlass.nodes import BitsOp, IndexOp, InsideOp, RandomNode
from mucc.dialects.mu.ops import placed, shape
from mucc.dialects.mu.ops.elementwise import CmpOp, ConstantOp
from mucc.dialects.mu.ops.random import RandomOp
from mucc.dialects.mu.ops.views import GeneratedOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.access import Axes

if TYPE_CHECKING:
    from mucc.kernels.lowering.bodies import Body


def generate(body: Body, op: GeneratedOp, axes: Axes) -> SSAValue:
    """Append the nodes of one element; along an axis that the space does not walk, its index is 0."""
    match op:
        case shape.IotaOp():
            if (axis := axes[op.axis.value.data]) is None:
                body.block.add_op(constant := ConstantOp(0.0))
                return constant.result
            body.block.add_op(index := IndexOp(axis))
            body.block.add_op(number := BitsOp(index.result))
            return number.result
        case placed.InsideOp():
            axis = axes[op.axis.value.data]
            body.block.add_op(inside := InsideOp(axis, *op.range))
            body.block.add_op(zero := ConstantOp(0.0))
            body.block.add_op(condition := CmpOp("gt", inside.result, zero.result))
            return condition.result
        case RandomOp():
            seed, dims = op.seed.owner, Shaped.of(op.result.type).dims
            if isinstance(seed, ConstantOp):
                given: SSAValue | int = int(seed.value.value.data)
            else:
                given = body.as_bits(body.scalar(op.seed, ()))
            body.block.add_op(random := RandomNode(given, op.stream.value.data, dims, axes))
            return random.result
        case _:
            raise AssertionError(f"{op.name} in a stage")
