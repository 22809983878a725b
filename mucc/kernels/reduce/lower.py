"""Lower stages to reduction kernels."""

from __future__ import annotations

from xdsl.ir import Region

from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.lowering.access import identity
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.reduce.op import ReduceKernelOp, ReduceStoreOp


def lower_reduction(builder: ProgramBuilder, stage: StageOp) -> None:
    anchor = stage.anchor
    assert isinstance(anchor, ReduceOp)
    body = Body(builder, stage)
    for result in stage.outputs:
        for target in builder.destinations(result):
            value = body.scalar(anchor.operand, identity(stage.space))
            value = body.as_bits(value) if value.type == S32 else value
            body.add(ReduceStoreOp(anchor.kind, value, target))
    axes = anchor.axes.get_values()
    builder.block.add_op(ReduceKernelOp(stage.stage_name.data, stage.space, axes, Region(body.block)))
