"""Prepare gradients of attention for the kernel that computes all of them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from mucc.dialects.mu.ops.attention import AttentionBackwardOp, AttentionGradientOp, row_sums
from mucc.dialects.mu.types import Shaped
from mucc.kernels.attention_backward.operands import takes_gradient


@dataclass(frozen=True)
class Gradients(RewritePattern):
    """`attention_dq(q, k, v, y, lse, dy)` -> `attention_backward(.., sum(dy * y))`, the sums once for all.

    Those of the same attention are rewritten together.
    """

    target: str

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AttentionGradientOp) or not takes_gradient(op, self.target):
            return
        users = {use.operation: None for use in op.gradient.uses}
        together = [o for o in users if o is op or self._goes_with(op, o)]
        here = [o for o in together if o.parent_block() is op.parent_block()]
        first: Operation = op
        for other in here:
            first = other if other.is_before_in_block(first) else first
        sums = op.rows
        if Shaped.of(sums.type).dims == Shaped.of(op.gradient.type).dims:
            new = row_sums(op.gradient, op.rows)
            for inserted in new:
                inserted.location = first.location
            rewriter.insert(new, InsertPoint.before(first))
            sums = new[-1].results[0]
        for old in here:
            assert isinstance(old, AttentionGradientOp)
            operands = (*old.operands[:5], sums)
            causal = old.causal is not None
            made = AttentionBackwardOp(old.of.data, operands, old.mask, causal, old.scale)
            made.location = old.location
            rewriter.replace(old, [made], [made.result])

    def _goes_with(self, op: AttentionGradientOp, other: Operation) -> bool:
        """Whether one kernel computes both gradients."""
        if not isinstance(other, AttentionGradientOp) or not op.is_beside(other):
            return False
        return takes_gradient(other, self.target)
