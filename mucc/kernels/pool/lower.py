"""Lower stages to pooling kernels."""

from __future__ import annotations

from xdsl.ir import Region, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.pool.op import PooledOp, PoolKernelOp


class PoolBody(Body):
    """The nodes of a pooling kernel: those before the pooling are over the extents of its source."""

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, PoolOp)
        order = identity(Shaped.of(op.operand.type).dims)
        if op.channels_last is not None:
            order = (0, len(order) - 1, *range(1, len(order) - 1))
        value = self.scalar(op.operand, order)
        self.add(pooled := PooledOp(value), op)
        return pooled.result


def lower_pool(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around a `mu.pool`."""
    anchor = stage.anchor
    assert isinstance(anchor, PoolOp)
    body = PoolBody(builder, stage)
    body.store_results()
    batch, channels, *extents = Shaped.of(anchor.operand.type).dims
    last = anchor.channels_last is not None
    builder.block.add_op(
        PoolKernelOp(
            stage.stage_name.data,
            anchor.kind.data,
            stage.space,
            (batch, *extents, channels) if last else (batch, channels, *extents),
            anchor.windows,
            Region(body.block),
            count_pad=anchor.count_pad is not None,
            divisor=anchor.divides_by,
            channels_last=last,
        )
    )
