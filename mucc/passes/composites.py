"""Rewrite patterns for composite operations on whole tensors, for `decompose`.

What a pattern cannot rewrite stays as it is, and `check-lowering` says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import (
    NARROW_WEIGHT,
    AttentionGradientOp,
    AttentionLogSumExpOp,
    AttentionOp,
    GradientOp,
    Wanted,
    row_sums,
)
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.normalisation import (
    LogSoftmaxOp,
    LogSumExpOp,
    Normalisation,
    NormalizeOp,
    SoftmaxOp,
)
from mucc.dialects.mu.ops.pointwise import S32, extent_number
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction, VarianceOp
from mucc.dialects.mu.ops.shape import FullOp, IotaOp, ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Shaped
from mucc.dialects.mu.value_bounds import bounds_of
from mucc.dialects.rewriting import Emit
from mucc.library.extents import multiply


def count_over(value: SSAValue, axes: Sequence[int]) -> Dim:
    """Return how many elements a reduction combines, as an extent."""
    dims = Shaped.of(value.type).dims
    return multiply([dims[axis] for axis in axes])


def in_floats(b: Emit, x: SSAValue) -> SSAValue:
    """Round s32 to f32, so that arithmetic on it does not wrap around."""
    return b(e.CastOp(x, f32)) if Shaped.of(x.type).element_type == S32 else x


def mean(b: Emit, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Compute the mean over axes, which stay with extent 1."""
    count, x = count_over(x, axes), in_floats(b, x)
    total = b(ExpandOp(b(ReduceOp("sum", x, axes)), axes)) if axes else x
    return b.divided(total, count)


def converted(b: Emit, value: SSAValue, like: SSAValue) -> SSAValue:
    """Give a value the dtype of another one; the store rounds it. A number becomes a bool by comparison."""
    wanted = Shaped.of(like.type).element_type
    if wanted == i1 and Shaped.of(value.type).element_type != i1:
        return b(e.CmpOp("ne", value, b.number(0.0)))
    return value if Shaped.of(value.type).element_type == wanted else b(e.RetypeOp(value, wanted))


class Mean(RewritePattern):
    """`mean(x)` over n elements -> `sum(x) * (1 / n)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReduceOp) or op.kind.data is not Reduction.MEAN:
            return
        b = Emit()
        total = b(ReduceOp("sum", in_floats(b, op.operand), op.axes.get_values()))
        result = b.divided(total, count_over(op.operand, op.axes.get_values()))
        rewriter.replace(op, b.ops, [result])


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
        count = count_over(op.operand, axes)
        if isinstance(count, int) and count <= correction:
            return
        b = Emit()
        distance = b(e.SubOp(op.operand, mean(b, op.operand, axes)))
        squares = b(ReduceOp("sum", b(e.MulOp(distance, distance)), axes))
        # One element is its own mean, but the compiler may fuse `a * b - mean` into an fma, which leaves the
        # rounding of `a * b`: its square counts for nothing.
        if isinstance(count, int):
            share = b.number(1 / (count - correction) if count > 1 else 0.0)
        else:
            # As in torch, the variance of too few elements is 0 / 0, or infinite.
            n = b(e.ExtentOp(count))
            counted = b(e.MinOp(b(e.SubOp(n, b.number(1.0))), b.number(1.0)))
            less = b(e.SubOp(n, b.number(correction)))
            share = b(e.DivOp(counted, b(e.MaxOp(less, b.number(0.0)))))
        rewriter.replace(op, b.ops, [b(e.MulOp(squares, share))])


class Permute(RewritePattern):
    """`permute(x)` that swaps the last two axes -> `transpose(x)`; one that moves nothing -> x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, PermuteOp):
            return
        order, dims = op.order.get_values(), Shaped.of(op.operand.type).dims
        # The layout of what is turned or squeezed again follows from this one's, which would change.
        is_viewed = any(isinstance(use.operation, TransposeOp | SqueezeOp) for use in op.result.uses)
        if [a for a in order if dims[a] != 1] == [a for a in range(len(dims)) if dims[a] != 1]:
            rewriter.replace(op, ReshapeOp(op.operand, Shaped.of(op.result.type).dims))
        elif tuple(order) == (*range(len(order) - 2), len(order) - 1, len(order) - 2) and not is_viewed:
            rewriter.replace(op, TransposeOp(op.operand))


class Full(RewritePattern):
    """`full((M, N), 3)` -> `broadcast(3)`, converted to the dtype."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, FullOp):
            return
        b = Emit()
        value = b(BroadcastOp(b.number(op.value.value.data), Shaped.of(op.result.type).dims))
        wanted = Shaped.of(op.result.type).element_type
        result = value if wanted == f32 else b(e.CastOp(value, wanted))
        rewriter.replace(op, b.ops, [result])


def _kept(b: Emit, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Build a reduction that keeps its axes with extent 1."""
    return b(ExpandOp(b(ReduceOp(kind, x, axes)), axes))


WIDEST = 64.0
"""The exponential of a number that is so far below another one is no denormal number yet."""

LARGEST = 1e4
"""A bound that every float of 16 bits or more has."""


def _bound(x: SSAValue) -> float | None:
    """Return a number from which all elements of a value are at most `WIDEST` apart, none greater.

    The sum of exp(x - m) is exp(c - m) times that of exp(x - c) for any c, so that quotients and logarithms
    of such sums follow from c as they do from the maximum m. With x between c - 64 and c no term is greater
    than 1 or loses digits: there is no need to find the maximum first.
    """
    low, high = bounds = bounds_of(x)
    return high if bounds.width <= WIDEST and max(abs(low), abs(high)) <= LARGEST else None


class Softmax(RewritePattern):
    """`softmax(x)` -> `exp(x - m) / sum(exp(x - m))` with m = max(x); its log `x - m - log(sum(...))`.

    For m any number will do that no element is much less or greater than.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, SoftmaxOp | LogSoftmaxOp):
            return
        b, axes = Emit(), (op.axis.value.data,)
        x = in_floats(b, op.operand)
        bound = _bound(x)
        below = b(e.SubOp(x, _kept(b, "max", x, axes) if bound is None else b.number(bound)))
        raised = b(e.ExpOp(below))
        total = _kept(b, "sum", raised, axes)
        if isinstance(op, SoftmaxOp):
            result = b(e.DivOp(raised, total))
        else:
            result = b(e.SubOp(below, b(e.LogOp(total))))
        result = converted(b, result, op.result)
        rewriter.replace(op, b.ops, [result])


class LogSumExp(RewritePattern):
    """`logsumexp(x)` -> `m + log(sum(exp(x - m)))` with the largest finite m, 0 where that is infinite."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, LogSumExpOp):
            return
        b, axes = Emit(), op.axes.get_values()
        x = in_floats(b, op.operand)
        if (bound := _bound(x)) is not None:
            above = most = b.number(bound)
        else:
            most = b(ReduceOp("max", x, axes))
            is_finite = b(e.CmpOp("lt", b(e.AbsOp(most)), b.number(math.inf)))
            most = b(e.SelectOp(is_finite, most, b.number(0.0)))
            above = b(ExpandOp(most, axes)) if axes else most
        raised = b(e.ExpOp(b(e.SubOp(x, above))))
        result = b(e.AddOp(b(e.LogOp(b(ReduceOp("sum", raised, axes)))), most))
        rewriter.replace(op, b.ops, [result])


class Normalize(RewritePattern):
    """`(x - mean) * rsqrt(mean((x - mean)²) + eps)`, the mean first; rms: `x * rsqrt(mean(x²) + eps)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, NormalizeOp):
            return
        axes = op.axes.get_values()
        b, x = Emit(), op.operand
        if op.kind.data is Normalisation.STANDARD:
            x = b(e.SubOp(x, mean(b, x, axes)))
        if Shaped.of(x.type).element_type != f32:
            x = b(e.CastOp(x, f32))
        spread = b(e.AddOp(mean(b, b(e.MulOp(x, x)), axes), b.number(op.eps.value.data)))
        result = converted(b, b(e.MulOp(x, b(e.RsqrtOp(spread)))), op.result)
        rewriter.replace(op, b.ops, [result])


def _weights(b: Emit, scores: SSAValue) -> SSAValue:
    """`exp(s - m) / sum(exp(s - m))` with m = max(s); 0 where m is -infinity: all columns are masked."""
    most = _kept(b, "max", scores, (len(Shaped.of(scores.type).dims) - 1,))
    is_masked = b(e.CmpOp("eq", most, b.number(-math.inf)))
    raised = b(e.ExpOp(b(e.SubOp(scores, b(e.SelectOp(is_masked, b.number(0.0), most))))))
    total = _kept(b, "sum", raised, (len(Shaped.of(scores.type).dims) - 1,))
    return b(e.DivOp(raised, b(e.SelectOp(is_masked, b.number(1.0), total))))


def _scores(b: Emit, op: AttentionOp | AttentionLogSumExpOp | GradientOp) -> SSAValue:
    """`scale * cast(q @ k.T, f32) + mask`; where attention is causal, later columns are -infinity."""
    scores = b(MatmulOp(op.query, b(TransposeOp(op.key))))
    if Shaped.of(scores.type).element_type != f32:
        scores = b(e.CastOp(scores, f32))
    scores = b(e.MulOp(scores, _scale(b, op)))
    if op.mask is not None:
        if Shaped.of(op.mask.type).element_type == i1:
            scores = b(e.SelectOp(op.mask, scores, b.number(-math.inf)))
        else:
            scores = b(e.AddOp(scores, op.mask))
    if op.causal is None:
        return scores
    plane = Shaped.of(scores.type).dims[-2:]
    seen = b(e.CmpOp("le", b(IotaOp(plane, 1)), b(IotaOp(plane, 0))))
    return b(e.SelectOp(seen, scores, b.number(-math.inf)))


def _scale(b: Emit, op: AttentionOp | AttentionLogSumExpOp | GradientOp) -> SSAValue:
    if op.scale is not None:
        return b.number(op.scale.value.data)
    return b(e.RsqrtOp(b(extent_number(Shaped.of(op.query.type).dims[-1]))))


class Attention(RewritePattern):
    """`attention(q, k, v)` -> `weights(scale * cast(q @ k.T, f32) + mask) @ v`.

    Weights are a softmax, but 0 in rows that are masked completely; sinks leave them the share
    `sigmoid(logsumexp(scores) - sinks)`. Where attention is causal, the scores of
    later columns are -infinity.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AttentionOp):
            return
        b = Emit()
        scores = _scores(b, op)
        weights = _weights(b, scores)
        if op.sinks is not None:
            axis = len(Shaped.of(scores.type).dims) - 1
            sums = b(ExpandOp(b(LogSumExpOp(scores, (axis,))), [axis]))
            weights = b(e.MulOp(weights, b(e.SigmoidOp(b(e.SubOp(sums, op.sinks))))))
        if Shaped.of(op.value.type).element_type == f32 or Shaped.of(op.result.type).element_type != f32:
            result = b(MatmulOp(converted(b, weights, op.value), op.value))
        else:
            # Weights of e4m3 are multiples, since small ones have few bits.
            weights = b(e.MulOp(weights, b.number(NARROW_WEIGHT)))
            product = b(MatmulOp(converted(b, weights, op.value), op.value))
            result = b(e.MulOp(product, b.number(1 / NARROW_WEIGHT)))
        rewriter.replace(op, b.ops, [result])


class AttentionSums(RewritePattern):
    """`attention_logsumexp(q, k)` -> `logsumexp(scale * cast(q @ k.T, f32) + mask)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AttentionLogSumExpOp):
            return
        b = Emit()
        scores = _scores(b, op)
        result = b(LogSumExpOp(scores, (len(Shaped.of(scores.type).dims) - 1,)))
        rewriter.replace(op, b.ops, [result])


class AttentionGradients(RewritePattern):
    """`attention_dv(..)` -> `p.T @ dy` with `p = exp(scores - lse)`.

    `attention_dq(..)` -> `scale * s @ k`, and `attention_dk(..)` -> `scale * s.T @ q`, both with
    `s = p * (dy @ v.T - sum(dy * y))`; `attention_dmask(..)` -> `s`. Heads of queries that share keys add up,
    and what a mask broadcasts to.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AttentionGradientOp):
            return
        b = Emit()
        scores = _scores(b, op)
        rank = len(Shaped.of(scores.type).dims)
        sums = b(ExpandOp(op.logsumexp, [rank - 1]))
        is_empty = b(e.CmpOp("eq", sums, b.number(-math.inf)))
        shift = b(e.SelectOp(is_empty, b.number(math.inf), sums))
        weights = b(e.ExpOp(b(e.SubOp(scores, shift))))
        if op.of.data is Wanted.VALUE:
            given = b(MatmulOp(b(TransposeOp(converted(b, weights, op.gradient))), op.gradient))
        elif op.of.data is Wanted.MASK:
            given = _changes(b, op, weights)
        else:
            changes = converted(b, _changes(b, op, weights), op.gradient)
            if op.of.data is Wanted.QUERY:
                given = b(MatmulOp(changes, op.key))
            else:
                given = b(MatmulOp(b(TransposeOp(changes)), op.query))
            given = b(e.MulOp(b(e.CastOp(given, f32)), _scale(b, op)))
        rewriter.replace(op, b.ops, [_added_heads(b, given, op.result)])


def _changes(b: Emit, op: AttentionGradientOp, weights: SSAValue) -> SSAValue:
    """Return the gradient of the scores."""
    products = b(e.CastOp(b(MatmulOp(op.gradient, b(TransposeOp(op.value)))), f32))
    sums, rank = op.rows, len(Shaped.of(products.type).dims)
    if len(Shaped.of(sums.type).dims) == rank:
        *new, last = row_sums(op.gradient, sums)
        b.ops.extend(new)
        sums = b(last)
    sums = b(ExpandOp(sums, [rank - 1]))
    return b(e.MulOp(weights, b(e.SubOp(products, sums))))


def _added_heads(b: Emit, given: SSAValue, result: SSAValue) -> SSAValue:
    """Sum over the axes along which an operand was the same, and convert to its dtype."""
    dims, wanted = Shaped.of(given.type).dims, Shaped.of(result.type)
    leading = len(dims) - len(wanted.dims)
    kept = [leading + a for a, n in enumerate(wanted.dims) if n == 1 and dims[leading + a] != 1]
    if axes := [*range(leading), *kept]:
        given = b(ReduceOp("sum", b(e.CastOp(given, f32)), axes))
        if kept:
            given = b(ExpandOp(given, [a - leading for a in kept]))
    return converted(b, given, result)


class Dequantize(RewritePattern):
    """`(w - z) * s` over [N, K] -> the same over [N, G, group], where scales and zeros broadcast."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, DequantizeOp):
            return
        emit = Emit()
        dims = Shaped.of(op.weights.type).dims
        groups = Shaped.of(op.scales.type).dims

        def column(value: SSAValue) -> SSAValue:
            return emit(ExpandOp(value, [len(groups)]))

        # A parameter lies row-major, as its rule says; a view of one need not.
        look = ReshapeOp if isinstance(op.weights.owner, Operation) else RegroupOp
        value = emit(look(op.weights, (*groups, op.group)))
        if op.zeros is not None:
            value = emit(e.SubOp(value, column(op.zeros)))
        value = emit(e.MulOp(value, column(op.scales)))
        wide = Shaped.of(op.result.type).element_type
        if Shaped.of(value.type).element_type != wide:
            value = emit(e.CastOp(value, wide))
        rewriter.replace(op, [*emit.ops, RegroupOp(value, dims)])


COMPOSITES: tuple[RewritePattern, ...] = (
    *(Mean(), Logical(), Variance(), Permute(), Full()),
    *(Softmax(), LogSumExp(), Normalize(), Dequantize()),
    *(Attention(), AttentionSums(), AttentionGradients()),
)
