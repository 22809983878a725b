"""Patterns of attention that is written out: `softmax(f(q @ k.T)) @ v`, with sinks too, `f(q @ k.T) @ v`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from mucc.dialects.mu.ops.attention import ScoredAttentionOp, ScoresOp
from mucc.dialects.mu.ops.contraction import Compute, MatmulOp
from mucc.dialects.mu.ops.elementwise import (
    CastOp,
    ConstantOp,
    DivOp,
    ElementwiseOp,
    MulOp,
    RetypeOp,
    SubOp,
)
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import ConcatOp, SliceOp
from mucc.dialects.mu.ops.views import VIEWS, BroadcastOp, ExpandOp, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.attention.operands import takes, takes_f32


def _only_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


class Weights(NamedTuple):
    """Scores, what reads them on their way to a product, and where there are such the scores of sinks."""

    scores: SSAValue
    reader: Operation
    sinks: SSAValue | None = None


def _without_casts(value: SSAValue) -> SSAValue:
    while isinstance(op := value.owner, CastOp | RetypeOp) and _only_use(value):
        value = op.operand
    return value


def _last_axis(value: SSAValue) -> int:
    return len(Shaped.of(value.type).dims) - 1


def _softmax_of(weights: SSAValue) -> Weights | None:
    """Return the scores whose softmax over the last axis weights are, if nothing else reads it."""
    value = _without_casts(weights)
    part = value.owner if isinstance(value.owner, SliceOp) else None
    if part is not None:
        value = _without_casts(part.operand)
    if not isinstance(op := value.owner, SoftmaxOp) or not _only_use(value):
        return None
    if op.axis.value.data != _last_axis(value):
        return None
    return Weights(op.operand, op) if part is None else _with_sinks(op.operand, part)


def _with_sinks(value: SSAValue, part: SliceOp) -> Weights | None:
    """Return scores to which those of sinks were joined, as a last column that a slice drops."""
    axis = _last_axis(value)
    value = _without_casts(value)
    most: object = None
    if isinstance(op := value.owner, SubOp):
        # That the largest score is subtracted changes no softmax.
        expanded = _without_casts(op.rhs).owner
        most = expanded.operand.owner if isinstance(expanded, ExpandOp) else None
        if not isinstance(most, ReduceOp) or most.kind.data.value != "max" or not _only_use(value):
            return None
        if most.operand is not op.lhs or tuple(most.axes.get_values()) != (axis,):
            return None
        value = op.lhs
    if not isinstance(joined := value.owner, ConcatOp) or joined.axis.value.data != axis:
        return None
    readers = {use.operation for use in value.uses}
    if len(joined.inputs) != 2 or len(readers) != (1 if most is None else 2) or not _only_use(part.result):
        return None
    scores, sinks = joined.inputs
    if isinstance(view := sinks.owner, BroadcastOp):
        sinks = view.operand
    is_column = _dims(sinks)[-2:] == (1, 1)
    drops = part.axis.value.data == axis and part.range == (0, _dims(scores)[-1], 1)
    return Weights(scores, joined, sinks) if is_column and drops else None


def _products(value: SSAValue) -> Iterator[MatmulOp]:
    """Yield the products of which a value is computed by pointwise operations of its shape."""
    dims = _dims(value)
    pending, seen = [value], {value}
    while pending:
        op = pending.pop().owner
        if isinstance(op, MatmulOp):
            yield op
        elif isinstance(op, ElementwiseOp):
            more = [v for v in op.operands if v not in seen and _dims(v) == dims]
            seen.update(more)
            pending += more


def _dims(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims


def _leads_only_to(product: MatmulOp, reader: Operation) -> bool:
    """Whether nothing but one operation reads what pointwise ones of its shape compute from a product."""
    pending: list[SSAValue] = [product.result]
    seen: set[Operation] = set()
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if op is reader or op in seen:
                continue
            if not isinstance(op, ElementwiseOp) or _dims(op.result) != _dims(product.result):
                return False
            seen.add(op)
            pending.append(op.result)
    return True


def _keys(turned: SSAValue) -> tuple[list[Operation], SSAValue] | None:
    """Return keys that are given with their last two axes exchanged, and what is to be built for them."""
    match view := turned.owner:
        case TransposeOp():
            return [], view.operand
        case PermuteOp():
            *rest, row, column = view.order.get_values()
            order = (*rest, column, row)
            if order == tuple(range(len(order))):
                return [], view.operand
            return [new := PermuteOp(view.operand, order)], new.result
        case ExpandOp() if view.axes.get_values()[-1] < len(_dims(turned)) - 2:
            if (inner := _keys(view.operand)) is None:
                return None
            new, key = inner
            return [*new, wide := ExpandOp(key, view.axes.get_values())], wide.result
        case _ if isinstance(view, VIEWS):
            return None
        case _:
            return [new := TransposeOp(turned)], new.result


def _is_attention(product: MatmulOp, values: SSAValue, weights: SSAValue) -> bool:
    """Whether weights that are no softmax are those of attention, and two products no layers of a network.

    Keys are given by rows, as values are, and something but a factor is computed of scores.
    """
    view = product.rhs.owner
    if isinstance(view, ExpandOp):
        view = view.operand.owner
    turned = isinstance(view, PermuteOp) and view.order.get_values()[-1] != len(view.order) - 1
    by_rows = not isinstance(values.owner, TransposeOp)
    if (
        not (turned or isinstance(view, TransposeOp))
        or not by_rows
        or _dims(product.rhs)[:-2] != _dims(values)[:-2]
    ):
        return False
    return not _is_multiple(weights, product.result)


def _is_multiple(value: SSAValue, of: SSAValue) -> bool:
    """Whether a value is another one times numbers."""
    while value is not of and isinstance(op := value.owner, CastOp | RetypeOp | MulOp | DivOp):
        others = [v for v in op.operands if not isinstance(v.owner, ConstantOp)]
        if len(others) != 1:
            return False
        value = others[0]
    return value is of


class Written(RewritePattern):
    """`softmax(f(q @ k.T)) @ v` and `f(q @ k.T) @ v` -> attention, where nothing else reads the scores."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp):
            return
        softmax, value = _softmax_of(op.lhs), op.rhs
        scores, reader, sinks = softmax or Weights(op.lhs, op)
        for product in _products(scores):
            query = product.lhs
            whole = product is not op and product.mixed is None and op.mixed is None
            if not whole or not _leads_only_to(product, reader) or _dims(scores) != _dims(product.result):
                continue
            if softmax is None and not _is_attention(product, value, scores):
                continue
            dims, results = _dims(scores), _dims(op.result)
            operands = (query, product.rhs, value, results)
            as_tf32 = takes_f32(*operands) and {product.compute.data, op.compute.data} == {Compute.TF32}
            if dims[:-1] != results[:-1] or not (takes(*operands) or as_tf32):
                continue
            if (found := _keys(product.rhs)) is None:
                continue
            new, key = found
            computed = ScoresOp(query, key)
            attention = ScoredAttentionOp(query, key, value, scores, sinks, softmax=softmax is not None)
            if computed.result.type != product.result.type or attention.result.type != op.result.type:
                continue
            rewriter.insert([*new, computed], InsertPoint.before(product))
            product.result.replace_all_uses_with(computed.result)
            rewriter.replace(op, [attention], [attention.result])
            return
