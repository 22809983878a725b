"""Lower attention to its kernel."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import FloatAttr, f32, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.mu.ops.attention import (
    AttentionBackwardOp,
    AttentionLogSumExpOp,
    AttentionOp,
    ScoredAttentionOp,
    ScoresOp,
)
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import AddOp, CastOp, ConstantOp, DivOp, MulOp, RetypeOp, SelectOp
from mucc.dialects.mu.ops.pointwise import number
from mucc.dialects.mu.ops.stage import StageOp, before_turning
from mucc.dialects.mu.ops.views import (
    AXIS_VIEWS,
    ExpandOp,
    GeneratedOp,
    PermuteOp,
    RegroupOp,
    SqueezeOp,
    TransposeOp,
    inverse,
)
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp, ScoreOp, ScoreSumOp
from mucc.kernels.attention.ranges import label_bits, limit_bits, without_ranges
from mucc.kernels.lowering.access import Axes, identity, root_axes, through_views
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder, build_view
from mucc.kernels.map.copies import contiguous_rows

Anchor = AttentionOp | ScoredAttentionOp


class ScoresBody(Body):
    """Nodes that compute scores and what each row sees: a range of columns, or those with its label."""

    def __init__(
        self,
        program: ProgramBuilder,
        stage: StageOp,
        op: Anchor | AttentionBackwardOp,
    ):
        super().__init__(program, stage)
        self.op = op
        self.finds_out = not isinstance(op, AttentionBackwardOp)
        query, key = (self.rows(v) for v in (op.query, op.key))
        self.product = ScoreOp(query, key, self._scale(), self._pages())
        self.add(self.product, op)
        score = self.product.result
        if isinstance(op, ScoredAttentionOp):
            score = self.scalar(op.scores, identity(Shaped.of(op.scores.type).dims))
        elif op.mask is not None:
            score = self._masked(score, op.mask)
        self.softmax = not isinstance(op, ScoredAttentionOp) or op.without_softmax is None
        hidden = -math.inf if self.softmax else 0.0
        score, seen, labels = without_ranges(self, score, hidden)
        self.first, self.last = (None if limit is None else limit_bits(self, limit) for limit in seen)
        self.labels = labels and (label_bits(self, labels.row), label_bits(self, labels.column))
        self.causal = not isinstance(op, ScoredAttentionOp) and op.causal is not None
        self.score = self._scaled(score)

    def rows(self, value: SSAValue) -> SSAValue:
        """Return a view of an operand's rows; kernels of gradients take only such as TMA loads."""
        view = contiguous_rows(self.program, self.stage, value, parts=True, regrouped=self.finds_out)
        in_pages = not isinstance(self.op, AttentionBackwardOp) and value in self.op.in_all_pages
        # Views leave out leading axes of extent 1: that of rows, too, where there is one row.
        missing = (3 if in_pages else 2) - len(Shaped.of(view.type).dims)
        if missing > 0:
            self.program.block.add_op(expanded := ExpandOp(view, range(missing)))
            return expanded.result
        return view

    def _pages(self) -> SSAValue | None:
        """Return the table of pages where keys lie in pages."""
        op = self.op
        if isinstance(op, AttentionBackwardOp) or op.pages is None:
            return None
        dims = Shaped.of(op.pages.type).dims
        access = self.program.at(through_views(op.pages, identity(dims), self.stage))
        return build_view(access, len(dims), self.program.block)

    def _scale(self) -> FloatAttr:
        if isinstance(self.op, ScoredAttentionOp):
            return number(1.0)
        width = Shaped.of(self.op.query.type).dims[-1]
        assert isinstance(width, int)
        return number(1 / math.sqrt(width)) if self.op.scale is None else self.op.scale

    def _scaled(self, score: SSAValue) -> SSAValue:
        """Make factors of the product its scale. Returns the score, which may have been one of them."""
        value: SSAValue = self.product.result
        factor = self.product.scale.value.data
        while value != score:
            # Masks that became ranges left operations behind whose results nothing uses.
            results = {use.operation.results[0] for use in value.uses}
            used = [result for result in results if result == score or any(result.uses)]
            by = _factor(used[0].owner, value) if len(used) == 1 else None
            if by is None or not math.isfinite(factor * by):
                break
            factor, value = factor * by, used[0]
        self.product.properties["scale"] = number(factor)
        if value == score:
            return self.product.result
        if value != self.product.result:
            value.replace_all_uses_with(self.product.result)
        return score

    def generated(self, op: GeneratedOp, axes: Axes) -> SSAValue:
        return self.product.result if isinstance(op, ScoresOp) else super().generated(op, axes)

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


class AttentionBody(ScoresBody):
    """The nodes of an attention kernel: pointwise work on scores, then on results."""

    def __init__(self, program: ProgramBuilder, stage: StageOp, op: Anchor):
        super().__init__(program, stage, op)
        value = self.rows(op.value)
        sink = None if op.sinks is None else self.scalar(op.sinks, root_axes(op.sinks, stage))
        nan_rows = isinstance(op, ScoredAttentionOp) and self.softmax and sink is None
        limits = (self.causal, self.first, self.last)
        attend = AttendOp(self.score, value, *limits, nan_rows, self.labels, self.softmax, sink)
        self.add(attend, op)
        self.attended = attend.result
        self.sums: SSAValue | None = None
        if any(isinstance(inner, AttentionLogSumExpOp) for inner in stage.body.block.ops):
            self.sums = self.add(ScoreSumOp(self.score), op)
        # Behind it the same values are those of other elements.
        self.values.clear()
        self.loads.clear()

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        if isinstance(op, AttentionLogSumExpOp):
            assert self.sums is not None
            return self.sums
        assert op is self.op
        return self.attended

    def destination(self, target: SSAValue, root: SSAValue) -> SSAValue:
        """Return where a result is stored: numbers of rows as matrices of one column.

        Where the axes of the result are permuted, those of its place are permuted back.
        """
        if isinstance(root.owner, AttentionLogSumExpOp):
            self.program.block.add_op(view := RegroupOp(target, (*Shaped.of(root.type).dims, 1)))
            return view.result
        place = self.program.regrouped(target, root)
        if before_turning(root).owner is self.op:
            while isinstance(view := root.owner, (RetypeOp, *AXIS_VIEWS)):
                if (back := _back(view, place)) is not None:
                    self.program.block.add_op(back)
                    place = back.results[0]
                root = view.operand
        return place


def _back(view: Operation, place: SSAValue) -> Operation | None:
    """Invert a view: return the view of its result's memory that has its operand; None for copies."""
    match view:
        case PermuteOp():
            return PermuteOp(place, inverse(view.order.get_values()))
        case TransposeOp():
            return TransposeOp(place)
        case ExpandOp():
            return SqueezeOp(place, view.axes.get_values())
        case SqueezeOp():
            return ExpandOp(place, view.axes.get_values())
        case _:
            return None


def scores_of(op: Anchor) -> Dims:
    """Return the extents of the scores."""
    return (*op.space[:-1], op.columns)


def lower_attention(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around attention."""
    anchor = stage.anchor
    assert isinstance(anchor, Anchor)
    body = AttentionBody(builder, stage, anchor)
    body.store_results()
    builder.block.add_op(AttentionKernelOp(stage.stage_name.data, scores_of(anchor), Region(body.block)))


def _factor(op: Operation | Block, value: SSAValue) -> float | None:
    """Return what an operation multiplies a value with; None where that is no constant."""
    if not isinstance(op, MulOp | DivOp) or op.lhs == op.rhs:
        return None
    other = op.rhs if op.lhs == value else op.lhs
    if not isinstance(known := other.owner, ConstantOp):
        return None
    by = known.value.value.data
    if isinstance(op, MulOp):
        return by
    return 1 / by if by and op.lhs == value else None
