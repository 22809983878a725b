"""Lower stages to scan kernels."""

from __future__ import annotations

from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass.nodes import BitsOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import CastOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.scan import ScanOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.access import Axes
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.scan.op import RunningOp, ScanKernelOp


class ScanBody(Body):
    """The nodes of a scan kernel; integers pass through the scan as their bits."""

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, ScanOp)
        value = self.scalar(op.operand, axes)
        is_integer = Shaped.of(op.result.type).element_type == S32
        if not is_integer:
            self.add(running := RunningOp(value), op)
            return running.result
        if value.type != S32:
            self.add(cast := CastOp(value, S32), op)
            value = cast.result
        self.add(running := RunningOp(self.as_bits(value)), op)
        self.add(number := BitsOp(running.result), op)
        return number.result


def lower_scan(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around a scan."""
    anchor = stage.anchor
    assert isinstance(anchor, ScanOp)
    body = ScanBody(builder, stage)
    body.store_results()
    builder.block.add_op(
        ScanKernelOp(
            stage.stage_name.data,
            anchor.kind.data,
            stage.space,
            anchor.axis.value.data,
            Region(body.block),
            reverse=anchor.reverse is not None,
            exclusive=anchor.exclusive is not None,
        )
    )
