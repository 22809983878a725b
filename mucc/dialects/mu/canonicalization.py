"""Canonicalisation patterns of the `mu` dialect."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.pointwise import extent_number
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import VIEWS, RegroupOp, TransposeOp
from mucc.dialects.mu.types import Shaped
from mucc.library.extents import polynomial


def _constant(value: SSAValue) -> float | None:
    return value.owner.value.value.data if isinstance(value.owner, e.ConstantOp) else None


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
        if any(isinstance(use.operation, TransposeOp) for use in op.result.uses):
            return
        rhs, lhs = TransposeOp(product.rhs), TransposeOp(product.lhs)
        transposed = MatmulOp(rhs, lhs, product.compute, product.acc)
        # The view was column-major, the new product is row-major: a new value of its own type.
        rewriter.insert((rhs, lhs, transposed))
        rewriter.replace_all_uses_with(op.result, transposed.result, safe_erase=False)
        rewriter.erase(op)


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
        if _constant(op.rhs) == neutral and _keeps_type(op, op.lhs):
            rewriter.replace(op, [], [op.lhs])
        elif isinstance(op, e.AddOp | e.MulOp) and _constant(op.lhs) == neutral and _keeps_type(op, op.rhs):
            rewriter.replace(op, [], [op.rhs])


class DoubleNegation(RewritePattern):
    """`-(-x)` -> `x`, and `not not c` -> `c`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, e.NegOp | e.NotOp) and isinstance(inner := op.operand.owner, type(op)):
            rewriter.replace(op, [], [inner.operand])


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
    """Arithmetic on two constants -> one constant."""

    FOLDS: dict[type[Operation], Callable[[float, float], float]] = {
        e.AddOp: lambda a, b: a + b,
        e.SubOp: lambda a, b: a - b,
        e.MulOp: lambda a, b: a * b,
    }

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        match op:
            case e.NegOp():
                if (value := _constant(op.operand)) is not None:
                    rewriter.replace(op, e.ConstantOp(-value))
            case e.AddOp() | e.SubOp() | e.MulOp() | e.DivOp():
                lhs, rhs = _constant(op.lhs), _constant(op.rhs)
                if lhs is None or rhs is None or op.result.type != f32:
                    return
                if isinstance(op, e.DivOp):
                    if rhs != 0.0:
                        rewriter.replace(op, e.ConstantOp(lhs / rhs))
                else:
                    rewriter.replace(op, e.ConstantOp(self.FOLDS[type(op)](lhs, rhs)))
            case _:
                return


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
        match _constant(op.rhs):
            case 1.0:
                rewriter.replace(op, [], [op.lhs])
            case 2.0:
                rewriter.replace(op, e.MulOp(op.lhs, op.lhs))
            case 0.5:
                rewriter.replace(op, e.SqrtOp(op.lhs))
            case _:
                return


PATTERNS: tuple[RewritePattern, ...] = (
    DoubleTranspose(),
    TransposedProduct(),
    PinnedView(),
    NeutralOperand(),
    DoubleNegation(),
    SameCast(),
    CastOfRetype(),
    FoldConstants(),
    BoundExtent(),
    SquareOfPow(),
)
