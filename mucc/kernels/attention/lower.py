"""Lower attention to its kernel."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Region, SSAValue

from mucc.dialects.mu.ops.attention import AttentionOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import AddOp, CastOp, ConstantOp, SelectOp
from mucc.dialects.mu.ops.pointwise import number
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp, ScoreOp
from mucc.kernels.attention.ranges import limit_bits, without_ranges
from mucc.kernels.lowering.access import Axes, root_axes
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.map.copies import contiguous_rows


class AttentionBody(Body):
    """The nodes of an attention kernel: pointwise work on scores, then on results."""

    def __init__(self, program: ProgramBuilder, stage: StageOp, op: AttentionOp):
        super().__init__(program, stage)
        self.op = op
        query, key, value = (contiguous_rows(program, stage, v) for v in (op.query, op.key, op.value))
        width = Shaped.of(op.query.type).dims[-1]
        assert isinstance(width, int)
        scale = number(1 / math.sqrt(width)) if op.scale is None else op.scale
        self.add(product := ScoreOp(query, key, scale), op)
        score = product.result if op.mask is None else self._masked(product.result, op.mask)
        score, seen = without_ranges(self, score)
        limits = [None if limit is None else limit_bits(self, limit) for limit in seen]
        self.add(attend := AttendOp(score, value, op.causal is not None, *limits), op)
        self.attended = attend.result
        # Behind it the same values are those of other elements.
        self.values.clear()
        self.loads.clear()

    def _masked(self, score: SSAValue, mask: SSAValue) -> SSAValue:
        """Add a mask of numbers; let a mask of bools select scores, others are -infinity."""
        given = self.scalar(mask, root_axes(mask, self.stage))
        if given.type == i1:
            self.add(least := ConstantOp(-math.inf))
            self.add(masked := SelectOp(given, score, least.result), self.op)
            return masked.result
        if given.type != f32:
            self.add(number := CastOp(given, f32), self.op)
            given = number.result
        self.add(total := AddOp(score, given), self.op)
        return total.result

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert op is self.op
        return self.attended


def scores_of(op: AttentionOp) -> Dims:
    """Return the extents of the scores."""
    return (*op.space[:-1], Shaped.of(op.key.type).dims[-2])


def lower_attention(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around attention."""
    anchor = stage.anchor
    assert isinstance(anchor, AttentionOp)
    body = AttentionBody(builder, stage, anchor)
    body.store_results()
    builder.block.add_op(AttentionKernelOp(stage.stage_name.data, scores_of(anchor), Region(body.block)))
