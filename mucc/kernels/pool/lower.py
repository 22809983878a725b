"""Lower stages to pooling kernels."""

from __future__ import annotations

from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass.nodes import StoreOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.access import Axes, identity, pointwise_roots, root_axes
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.pool.op import PooledOp, PoolKernelOp


class PoolBody(Body):
    """The nodes of a pooling kernel: those before the pooling are over the extents of its source."""

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, PoolOp)
        value = self.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
        self.add(pooled := PooledOp(value), op)
        return pooled.result


def lower_pool(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around a `mu.pool`."""
    anchor = stage.anchor
    assert isinstance(anchor, PoolOp)
    body = PoolBody(builder, stage)
    places = [builder.destinations(result) for result in stage.outputs]
    for root, targets in zip(pointwise_roots(stage), places, strict=True):
        value = body.scalar(root, root_axes(root, stage))
        for target in targets:
            body.add(StoreOp(body.without_cast(value, target), target))
    builder.block.add_op(
        PoolKernelOp(
            stage.stage_name.data,
            anchor.kind.data,
            stage.space,
            Shaped.of(anchor.operand.type).dims,
            anchor.windows,
            Region(body.block),
            count_pad=anchor.count_pad is not None,
            divisor=anchor.divides_by,
        )
    )
