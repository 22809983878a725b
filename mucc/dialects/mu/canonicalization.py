"""Canonicalisation patterns of the `mu` dialect."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.folding import folded, literal
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.integral import RoundingOp
from mucc.dialects.mu.ops.pointwise import S32, extent_number, is_whole
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import VIEWS, ExpandOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.rewriting import Emit
from mucc.library.extents import polynomial


class DoubleTranspose(RewritePattern):
    """`transpose(transpose(x))` -> `x`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, TransposeOp):
            return
        if isinstance(inner := op.operand.owner, TransposeOp) and inner.operand.type == op.result.type:
            rewriter.replace(op, [], [inner.operand])


class TransposedProduct(RewritePattern):
    """`transpose(matmul(a, b))` -> `matmul(transpose(b), transpose(a))`, if the product has no other use."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, TransposeOp):
            return
        product = op.operand.owner
        if not isinstance(product, MatmulOp) or product.scales or not product.result.has_one_use():
            return
        if any(isinstance(use.operation, TransposeOp | SqueezeOp) for use in op.result.uses):
            return  # the layout of their results follows from this one's
        rhs, lhs = TransposeOp(product.rhs), TransposeOp(product.lhs)
        transposed = MatmulOp(rhs, lhs, product.compute, product.acc)
        # The view was column-major, the new product is row-major: a new value of its own type.
        rewriter.insert((rhs, lhs, transposed))
        rewriter.replace_all_uses_with(op.result, transposed.result, safe_erase=False)
        rewriter.erase(op)


class ExpandedAxes(RewritePattern):
    """`squeeze(expand(x))` -> `x`, where what is dropped is what was inserted."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, SqueezeOp) or not isinstance(inner := op.operand.owner, ExpandOp):
            return
        if op.axes == inner.axes and inner.operand.type == op.result.type:
            rewriter.replace(op, [], [inner.operand])


class InsertedAgain(RewritePattern):
    """`expand(squeeze(x))` -> `x`, where what is inserted is what was dropped."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ExpandOp) or not isinstance(inner := op.operand.owner, SqueezeOp):
            return
        if op.axes == inner.axes and inner.operand.type == op.result.type:
            rewriter.replace(op, [], [inner.operand])


class OneElement(RewritePattern):
    """`sum(x)`, `mean(x)`, `logsumexp(x)` and others over extents of 1 -> `squeeze(x)`, as an f32."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, ReduceOp):
            if op.kind.data in _CHANGING:
                return
            axes = op.axes.get_values()
        elif op.name == "mu.logsumexp":
            axes = _axes_of(op)
        else:
            return
        value = op.operands[0]
        if not axes or not isinstance(value.type, TensorType):
            return
        if any(value.type.dims[axis] != 1 for axis in axes):
            return
        b = Emit()
        result, wanted = b(SqueezeOp(value, axes)), op.results[0].type
        if Shaped.of(value.type).element_type != Shaped.of(wanted).element_type:
            result = b(e.CastOp(result, Shaped.of(wanted).element_type))
        if result.type == wanted:
            rewriter.replace(op, b.ops)
        else:
            b.discard()


def _axes_of(op: Operation) -> Sequence[int]:
    """Return the axes of a log-sum-exp, whose class is loaded where a program has one."""
    from mucc.dialects.mu.ops.normalisation import LogSumExpOp

    assert isinstance(op, LogSumExpOp)
    return op.axes.get_values()


_CHANGING = (Reduction.AMAX, Reduction.ANY, Reduction.ALL)
"""Reductions that are not the element itself where there is one."""


class NestedReduction(RewritePattern):
    """`sum(sum(x, axis=1), axis=0)` -> `sum(x, axis=(0, 1))`, and so for the largest, least and products."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReduceOp) or not isinstance(inner := op.operand.owner, ReduceOp):
            return
        if op.kind != inner.kind or op.kind.data not in _NESTED or not inner.result.has_one_use():
            return
        taken = inner.axes.get_values()
        left = [axis for axis in range(len(Shaped.of(inner.operand.type).dims)) if axis not in taken]
        axes = sorted((*taken, *(left[axis] for axis in op.axes.get_values())))
        b = Emit()
        if b(ReduceOp(op.kind, inner.operand, axes)).type == op.result.type:
            rewriter.replace(op, b.ops)
        else:
            b.discard()


_NESTED = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.PROD)


class PinnedView(RewritePattern):
    """`pin(regroup(x))` -> `regroup(pin(x))` for a computed x, whose elements are then stored only once."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, PinOp) or not isinstance(view := op.operand.owner, RegroupOp):
            return
        if not isinstance(view.operand.owner, Operation) or isinstance(view.operand.owner, VIEWS):
            return
        pin = PinOp(op.stage.data, view.operand)
        rewriter.replace(op, [pin, RegroupOp(pin, Shaped.of(op.result.type).dims)])


def _keeps_type(op: e.ElementwiseOp, value: SSAValue) -> bool:
    return value.type == op.result.type


class NeutralOperand(RewritePattern):
    """`x + 0`, `x - 0`, `x * 1`, `x / 1` -> `x`, where the type stays the same."""

    NEUTRAL = {e.AddOp: 0.0, e.SubOp: 0.0, e.MulOp: 1.0, e.DivOp: 1.0}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.AddOp | e.SubOp | e.MulOp | e.DivOp):
            return
        neutral = self.NEUTRAL[type(op)]
        if literal(op.rhs) == neutral and _keeps_type(op, op.lhs):
            rewriter.replace(op, [], [op.lhs])
        elif isinstance(op, e.AddOp | e.MulOp) and literal(op.lhs) == neutral and _keeps_type(op, op.rhs):
            rewriter.replace(op, [], [op.rhs])


class DoubleNegation(RewritePattern):
    """`-(-x)` -> `x`, `not not c` -> `c`, and `bitwise_not(bitwise_not(n))` -> `n`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.NegOp | e.NotOp | e.BitwiseNotOp):
            return
        if isinstance(inner := op.operand.owner, type(op)) and _keeps_type(op, inner.operand):
            rewriter.replace(op, [], [inner.operand])


class ChosenCondition(RewritePattern):
    """`where(c, a, b)` of bools -> `(c and a) or (not c and b)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.SelectOp) or Shaped.of(op.result.type).element_type != i1:
            return
        b = Emit()
        first = b(e.AndOp(op.condition, op.on_true))
        second = b(e.AndOp(b(e.NotOp(op.condition)), op.on_false))
        result = b(e.OrOp(first, second))
        rewriter.replace(op, b.ops, [result])


class RoundedTwice(RewritePattern):
    """`floor(round(x))` -> `round(x)`, and `floor(n)` -> `n` for integers."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, RoundingOp):
            return
        is_whole = isinstance(op.operand.owner, RoundingOp) or op.computes_integers
        if is_whole and _keeps_type(op, op.operand):
            rewriter.replace(op, [], [op.operand])


class SameCast(RewritePattern):
    """`cast(cast(x, t), t)` -> `cast(x, t)`. A single cast stays because it rounds."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.CastOp) or not isinstance(inner := op.operand.owner, e.CastOp):
            return
        if inner.result.type == op.result.type:
            rewriter.replace(op, [], [inner.result])


class CastOfRetype(RewritePattern):
    """`cast(retype(x), t)` -> `cast(x, t)`, or `x` where x and t are f32."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.CastOp) or not isinstance(inner := op.operand.owner, e.RetypeOp):
            return
        if inner.operand.type == op.result.type and op.element_type == f32:
            rewriter.replace(op, [], [inner.operand])
        else:
            rewriter.replace(op, e.CastOp(inner.operand, op.element_type))


class FoldConstants(RewritePattern):
    """Arithmetic on literals -> a literal, except where an integer would take a whole literal for its own."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (number := folded(op)) is None:
            return
        constant = e.ConstantOp(number)
        users = (use.operation for use in op.results[0].uses)
        if not is_whole(constant.result) or not any(_takes_integers(user) for user in users):
            rewriter.replace(op, constant)


def _takes_integers(op: Operation) -> bool:
    return any(Shaped.of(v.type).element_type == S32 for v in op.operands)


class BoundExtent(RewritePattern):
    """`extent "K"` in a kernel that binds K -> its value."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.ExtentOp) or not isinstance(entry := op.parent_op(), EntryOp):
            return
        form = polynomial(op.extent.data).with_values(entry.bound_dims)
        if op.result.type == f32 and form.dim != op.extent.data:
            rewriter.replace(op, extent_number(form.dim))


class SquareOfPow(RewritePattern):
    """`pow(x, 2)` -> `x * x`, `pow(x, 1)` -> `x`, `pow(x, 0.5)` -> `sqrt(x)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.PowOp) or not _keeps_type(op, op.lhs):
            return
        match literal(op.rhs):
            case 1.0:
                rewriter.replace(op, [], [op.lhs])
            case 2.0:
                rewriter.replace(op, e.MulOp(op.lhs, op.lhs))
            case 0.5:
                rewriter.replace(op, e.SqrtOp(op.lhs))
            case _:
                return


class WholeWindow(RewritePattern):
    """`max_pool(x, size)` -> `max(x, axes)` and `avg_pool` -> `mean`, where windows take whole axes.

    Along other axes they take single elements. The reduced axes are inserted
    again, and the result has the dtype of `x`.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.name != "mu.pool":
            return
        from mucc.dialects.mu.ops.pooling import PoolOp
        from mucc.dialects.mu.pooling_kinds import Pooling

        assert isinstance(op, PoolOp)
        if op.channels_last is not None:
            return
        dims = Shaped.of(op.operand.type).dims
        moving = {axis: w for axis, w in enumerate(op.windows, 2) if (w.size, w.stride, w.pad) != (1, 1, 0)}
        if not moving and op.divides_by not in (None, 1):
            return
        if any((w.size, w.pad, w.dilation) != (dims[axis], 0, 1) for axis, w in moving.items()):
            return
        if not moving:
            rewriter.replace(op, [], [op.operand])
            return
        is_max = op.kind.data is Pooling.MAX
        divisor = op.divides_by
        kind = "max" if is_max else "mean" if divisor is None else "sum"
        reduced = ReduceOp(kind, op.operand, list(moving))
        new: list[Operation] = [reduced]
        if divisor is not None:
            new += [number := e.ConstantOp(divisor), e.DivOp(reduced.result, number.result)]
        new.append(kept := ExpandOp(new[-1].results[0], list(moving)))
        if kept.result.type != op.result.type:
            new.append(e.RetypeOp(kept.result, Shaped.of(op.result.type).element_type))
        rewriter.replace(op, new)


PATTERNS: tuple[RewritePattern, ...] = (
    DoubleTranspose(),
    ExpandedAxes(),
    InsertedAgain(),
    OneElement(),
    NestedReduction(),
    TransposedProduct(),
    PinnedView(),
    NeutralOperand(),
    DoubleNegation(),
    ChosenCondition(),
    RoundedTwice(),
    SameCast(),
    CastOfRetype(),
    FoldConstants(),
    BoundExtent(),
    SquareOfPow(),
    WholeWindow(),
)
