"""Lower stages to sort kernels."""

from __future__ import annotations

from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass.nodes import BitsOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.sort.op import PositionOp, SortedOp, SortKernelOp


class SortBody(Body):
    """The nodes of a sort kernel; integers are sorted as their bits."""

    sorted: SortedOp | None = None
    position: PositionOp | None = None

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, SortOp)
        if self.sorted is None:
            value = self.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
            self.add(ordered := SortedOp(self.as_bits(value) if value.type == S32 else value), op)
            self.sorted = ordered
        value = self.sorted.result
        if op.positions is not None:
            if self.position is None:
                self.add(found := PositionOp(value), op)
                self.position = found
            value = self.position.result
        if Shaped.of(op.result.type).element_type != S32:
            return value
        self.add(number := BitsOp(value), op)
        return number.result


def lower_sort(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around one sort, or around several with the same order."""
    anchor = stage.anchor
    assert isinstance(anchor, SortOp)
    body = SortBody(builder, stage)
    body.store_results()
    builder.block.add_op(
        SortKernelOp(
            stage.stage_name.data,
            Shaped.of(anchor.operand.type).dims,
            anchor.axis.value.data,
            Region(body.block),
            descending=anchor.descending is not None,
            count=anchor.taken,
        )
    )
