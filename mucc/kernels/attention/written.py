"""Patterns of attention that is written out: `softmax(f(q @ k.T)) @ v` and `f(q @ k.T) @ v`, pointwise f."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from mucc.dialects.mu.ops.attention import ScoredAttentionOp, ScoresOp
from mucc.dialects.mu.ops.contraction import Compute, MatmulOp
from mucc.dialects.mu.ops.elementwise import CastOp, ConstantOp, DivOp, ElementwiseOp, MulOp, RetypeOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.views import VIEWS, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.attention.operands import takes, takes_f32


def _only_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


def _softmax_of(weights: SSAValue) -> SoftmaxOp | None:
    """Return the softmax over the last axis whose result weights are, if nothing else reads it."""
    while isinstance(op := weights.owner, CastOp | RetypeOp) and _only_use(weights):
        weights = op.operand
    if not isinstance(op := weights.owner, SoftmaxOp) or not _only_use(weights):
        return None
    return op if op.axis.value.data == len(Shaped.of(weights.type).dims) - 1 else None


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
        case _ if isinstance(view, VIEWS):
            return None
        case _:
            return [new := TransposeOp(turned)], new.result


def _is_attention(product: MatmulOp, values: SSAValue, weights: SSAValue) -> bool:
    """Whether weights that are no softmax are those of attention, and two products no layers of a network.

    Keys are given by rows, as values are, and something but a factor is computed of scores.
    """
    turned = (
        isinstance(view := product.rhs.owner, PermuteOp)
        and view.order.get_values()[-1] != len(_dims(product.rhs)) - 1
    )
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
        scores = op.lhs if softmax is None else softmax.operand
        for product in _products(scores):
            query = product.lhs
            whole = product is not op and product.mixed is None and op.mixed is None
            reader = softmax or op
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
            attention = ScoredAttentionOp(query, key, value, scores, softmax=softmax is not None)
            if computed.result.type != product.result.type or attention.result.type != op.result.type:
                continue
            rewriter.insert([*new, computed], InsertPoint.before(product))
            product.result.replace_all_uses_with(computed.result)
            rewriter.replace(op, [attention], [attention.result])
            return
