"""Sum operands: sums of a product's rows or columns become products of sums."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import Dim
from mucc.dialects.rewriting import Pass, rewrite
from mucc.library.extents import multiply
from mucc.passes.composites import converted
from mucc.passes.linear_sums import LinearSum, UnfitError, Windows
from mucc.passes.values import dims_of


class _Sum(RewritePattern):
    """`sum(x @ w, axis=1)` -> `sum(x * sum(w, axis=1), axis=1)`, and so means and average pools."""

    def __init__(self, always: bool):
        self.always = always

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not _adds(op):
            return
        if (found := _windows(op)) is None:
            return
        windows, count = found
        if (sums := LinearSum.of(op, windows, self.always)) is None:
            return
        try:
            value = sums.summed()
            if count is not None:
                value = sums.emit.divided(value, count)
        except (TypeRuleError, UnfitError):
            sums.emit.discard()
            return
        rewriter.replace(op, sums.emit.ops, [converted(sums.emit, value, op.results[0])])


def _adds(op: Operation) -> bool:
    """Whether an operation may add up elements."""
    if isinstance(op, ReduceOp):
        return op.kind.data in (Reduction.SUM, Reduction.MEAN)
    return op.name == "mu.pool"


def _windows(op: Operation) -> tuple[Windows, Dim | None] | None:
    """Return what a sum or a pool adds up, and the number that sums are divided by; None for other pools."""
    if isinstance(op, ReduceOp):
        dims, axes = dims_of(op.operand), op.axes.get_values()
        count = multiply([dims[axis] for axis in axes]) if op.kind.data is Reduction.MEAN else None
        return Windows(dims, dict.fromkeys(axes, None)), count
    return _pooled(op)


def _pooled(op: Operation) -> tuple[Windows, Dim | None] | None:
    """Return the windows of an average pool; None where they overlap, leave elements out, or are padded."""
    from mucc.dialects.mu.ops.pooling import PoolOp
    from mucc.dialects.mu.pooling_kinds import Pooling

    assert isinstance(op, PoolOp)
    if op.kind.data is not Pooling.AVG or op.channels_last is not None:
        return None
    dims = dims_of(op.operand)
    sizes: dict[int, int | None] = {}
    count = 1
    for axis, window in enumerate(op.windows, 2):
        extent = dims[axis]
        if (window.stride, window.pad, window.dilation) != (window.size, 0, 1):
            return None
        if not isinstance(extent, int) or extent % window.size:
            return None
        if window.size > 1:
            sizes[axis] = window.size
        count *= window.size
    return Windows(dims, sizes), count if op.divides_by is None else op.divides_by


@dataclass(frozen=True)
class SumOperands(Pass):
    """Multiply sums of rows or columns instead of summing up rows or columns of a product.

    ```
    %y = mu.matmul %x, %w : [M, N]                %u = mu.reduce sum %w axes [1] : [K]
    %b = mu.add %y, %bias                 ->      %p = mu.mul %x, %u : [M, K]
    %s = mu.reduce sum %b axes [1]                %q = mu.reduce sum %p axes [1] : [M]
                                                  %t = mu.reduce sum %bias axes [0]
                                                  %s = mu.add %q, %t
    ```

    A sum over columns of a linear layer then reads its weights, but multiplies no matrices; an average pool
    over 16 of them multiplies a matrix of a sixteenth. `linear_sums.LinearSum` says why this is exact. With
    `always`, for bounds, it happens whatever launches and roundings cost.
    """

    name = "sum-operands"

    always: bool = False

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [_Sum(self.always)])
