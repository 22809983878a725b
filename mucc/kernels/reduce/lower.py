"""Lower stages to reduction kernels."""

from __future__ import annotations

from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass.nodes import BitsOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.reduce.claims import reduced_axes
from mucc.kernels.reduce.op import ArgReducedOp, ReducedOp, ReduceKernelOp, ReduceStoreOp


class ReduceBody(Body):
    """The nodes of a reduction kernel, whose space is that of the operand.

    Values that are computed from results vary along the kept axes only.
    """

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, ReduceOp | ArgReduceOp)
        value = self.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
        value = self.as_bits(value) if value.type == S32 else value
        reduced = ReducedOp(op.kind, value) if isinstance(op, ReduceOp) else ArgReducedOp(op.kind, value)
        self.add(reduced, op)
        if Shaped.of(op.result.type).element_type != S32:
            return reduced.result
        self.add(number := BitsOp(reduced.result), op)
        return number.result


def lower_reduction(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around one reduction, or around several over the same axes."""
    anchor = stage.anchor
    assert isinstance(anchor, ReduceOp | ArgReduceOp)
    dims, axes = Shaped.of(anchor.operand.type).dims, reduced_axes(anchor)
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    body = ReduceBody(builder, stage, len(dims))
    places = [builder.destinations(result) for result in stage.outputs]
    for stored, targets in zip(stage.stored, places, strict=True):
        value = body.scalar(stored, tuple(None if dims[axis] == 1 else axis for axis in kept))
        for target in targets:
            body.add(ReduceStoreOp(body.without_cast(value, target), builder.regrouped(target, stored)))
    builder.block.add_op(ReduceKernelOp(stage.stage_name.data, dims, axes, Region(body.block)))
