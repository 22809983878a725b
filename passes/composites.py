"""How `decompose` rewrites composite operations on whole tensors.

What a pattern cannot rewrite stays as it is, and `check-lowering` says so: a mean over a run-time extent, for
example, which no kernel divides by.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction, VarianceOp
from mucc.dialects.mu.ops.shape import FullOp, PermuteOp, ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, RegroupOp, TransposeOp
from mucc.dialects.mu.shape_rules import elements
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.passes.support import Emit


def count_over(value: SSAValue, axes: Sequence[int]) -> int | None:
    """How many elements a reduction takes together, None where an extent is a run-time dim."""
    dims = Shaped.of(value.type).dims
    return elements([dims[axis] for axis in axes])


def mean(b: Emit, x: SSAValue, axes: Sequence[int], count: float) -> SSAValue:
    """The mean over axes with extent 1 left in their place."""
    total = b(ExpandOp(b(ReduceOp("sum", x, axes)), axes)) if axes else x
    return b(e.MulOp(total, b.number(1 / count)))


def converted(b: Emit, value: SSAValue, like: SSAValue) -> SSAValue:
    """The value at another one's dtype."""
    wanted = Shaped.of(like.type).element_type
    return value if Shaped.of(value.type).element_type == wanted else b(e.CastOp(value, wanted))  # type: ignore[arg-type]


class Mean(RewritePattern):
    """`mean(x)` over n elements -> `sum(x) * (1 / n)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReduceOp) or op.kind.data is not Reduction.MEAN:
            return
        if (count := count_over(op.operand, op.axes.get_values())) is None:
            return
        total = ReduceOp("sum", op.operand, op.axes.get_values())
        scale = e.ConstantOp(1 / count)
        rewriter.replace(op, [total, scale, e.MulOp(total, scale)])


class Logical(RewritePattern):
    """`any(c)` -> `max(cast(c, f32)) > 0`, `all(c)` -> `min(cast(c, f32)) > 0`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReduceOp) or not op.kind.data.is_logical:
            return
        kind = "max" if op.kind.data is Reduction.ANY else "min"
        number, zero = e.CastOp(op.operand, f32), e.ConstantOp(0.0)
        reduced = ReduceOp(kind, number, op.axes.get_values())
        rewriter.replace(op, [number, zero, reduced, e.CmpOp("gt", reduced, zero)])


class Variance(RewritePattern):
    """`var(x)` -> the sum of `(x - mean)²`, over n - correction: two passes, as one would cancel."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, VarianceOp):
            return
        axes, correction = op.axes.get_values(), op.correction.value.data
        if (count := count_over(op.operand, axes)) is None or count <= correction:
            return
        b = Emit()
        distance = b(e.SubOp(op.operand, mean(b, op.operand, axes, count)))
        squares = b(ReduceOp("sum", b(e.MulOp(distance, distance)), axes))
        result = b(e.MulOp(squares, b.number(1 / (count - correction))))
        rewriter.replace(op, b.ops, [result])


def _in_order(value: SSAValue) -> bool:
    """Whether a value's elements lie, or will lie, in memory in row-major order."""
    match value.owner:
        case ExpandOp() | RegroupOp() as view:
            return _in_order(view.operand)
        case e.ElementwiseOp() | ReduceOp():
            return True
        case Operation() as op if op.name != "mu.matmul":
            return False
        case _:
            return isinstance(value.type, TensorType) and value.type.layout.is_row_major


class Reshape(RewritePattern):
    """`reshape(x)` -> `regroup(x)` where x lies row-major, and of a copy of x where not."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReshapeOp):
            return
        value, dims = op.operand, Shaped.of(op.result.type).dims
        if Shaped.of(value.type).dims == dims and isinstance(value.type, TensorType):
            rewriter.replace(op, [], [value])
            return
        b = Emit()
        if not Shaped.of(value.type).dims:
            result = b(ExpandOp(value, range(len(dims))))
        else:
            if not _in_order(value):
                value = b(e.CastOp(value, Shaped.of(value.type).element_type))  # type: ignore[arg-type]
            result = b(RegroupOp(value, dims))
        rewriter.replace(op, b.ops, [result])


class Permute(RewritePattern):
    """`permute(x)` that swaps the last two axes -> `transpose(x)`; one that moves nothing -> x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, PermuteOp):
            return
        order, dims = op.order.get_values(), Shaped.of(op.operand.type).dims
        if [a for a in order if dims[a] != 1] == [a for a in range(len(dims)) if dims[a] != 1]:
            rewriter.replace(op, ReshapeOp(op.operand, Shaped.of(op.result.type).dims))
        elif tuple(order) == (*range(len(order) - 2), len(order) - 1, len(order) - 2):
            rewriter.replace(op, TransposeOp(op.operand))


class Full(RewritePattern):
    """`full((M, N), 3)` -> `broadcast(3)`, converted to the dtype."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, FullOp):
            return
        b = Emit()
        value = b(BroadcastOp(b.number(op.value.value.data), Shaped.of(op.result.type).dims))
        result = converted(b, value, op.result)
        rewriter.replace(op, b.ops, [result])


COMPOSITES: tuple[RewritePattern, ...] = (Mean(), Logical(), Variance(), Reshape(), Permute(), Full())
