"""Patterns of attention that is written out: `softmax(f(q @ k.T)) @ v`, with sinks too, `f(q @ k.T) @ v`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue
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
from mucc.dialects.rewriting import Emit
from mucc.dialects.walk import postorder
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
    """Return the scores whose softmax over the last axis weights are, if only products by values read it."""
    value = weights
    while isinstance(op := value.owner, CastOp | RetypeOp) and _weighed(value) is not None:
        value = op.operand
    part = value.owner if isinstance(value.owner, SliceOp) else None
    if part is not None:
        value = _without_casts(part.operand)
    if not isinstance(op := value.owner, SoftmaxOp):
        return None
    if _weighed(value) is None if part is None else not _only_use(value):
        return None
    if op.axis.value.data != _last_axis(value):
        return None
    return Weights(op.operand, op) if part is None else _with_sinks(op.operand, part)


def _weighed(weights: SSAValue) -> set[MatmulOp] | None:
    """Return the products that weights are the left operand of; None if anything else reads them."""
    products: set[MatmulOp] = set()
    for op in {use.operation for use in weights.uses}:
        if isinstance(op, CastOp | RetypeOp) and (more := _weighed(op.result)) is not None:
            products |= more
        elif isinstance(op, MatmulOp) and op.lhs is weights and op.rhs is not weights:
            products.add(op)
        else:
            return None
    return products


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


def _readers(product: MatmulOp) -> set[Operation]:
    """Return the operations that read a product directly, or through pointwise operations of its shape."""
    pending: list[SSAValue] = [product.result]
    seen: set[Operation] = set()
    readers: set[Operation] = set()
    while pending:
        for op in {use.operation for use in pending.pop().uses} - seen:
            seen.add(op)
            if isinstance(op, ElementwiseOp) and _dims(op.result) == _dims(product.result):
                pending.append(op.result)
            else:
                readers.add(op)
    return readers


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


class Found(NamedTuple):
    """Attention that is written out: its product of queries and keys, and what is computed of that."""

    product: MatmulOp
    weights: Weights
    softmax: bool


def _found(op: MatmulOp) -> Iterator[Found]:
    """Yield how a product is the second one of attention, whatever else reads the first one."""
    softmax, value = _softmax_of(op.lhs), op.rhs
    weights = softmax or Weights(op.lhs, op)
    dims, results = _dims(weights.scores), _dims(op.result)
    for product in _products(weights.scores):
        whole = product is not op and product.mixed is None and op.mixed is None
        if not whole or dims != _dims(product.result) or dims[:-1] != results[:-1]:
            continue
        if softmax is None and not _is_attention(product, value, weights.scores):
            continue
        operands = (product.lhs, product.rhs, value, results)
        as_tf32 = takes_f32(*operands) and {product.compute.data, op.compute.data} == {Compute.TF32}
        if takes(*operands) or as_tf32:
            yield Found(product, weights, softmax is not None)


def _other_readers(found: Found) -> set[Operation]:
    """Return the readers of the product of queries and keys beside this attention, without dead ones."""
    return {op for op in _readers(found.product) - {found.weights.reader} if _is_used(op)}


def _is_used(op: Operation) -> bool:
    """Whether a return, or another operation without results, depends on an operation."""

    def users(op: Operation) -> set[Operation]:
        return {use.operation for result in op.results for use in result.uses}

    return any(not reached.results for reached in postorder(op, users))


def _are_attention(product: MatmulOp, readers: set[Operation], block: Block) -> bool:
    """Whether each of the readers of a product is one of its attentions."""
    products = (op for op in block.ops if isinstance(op, MatmulOp))
    return readers <= {f.weights.reader for op in products for f in _found(op) if f.product is product}


def _sharing(op: MatmulOp, found: Found) -> set[MatmulOp]:
    """Return the other products by the same weights, if these are a softmax."""
    reader = found.weights.reader
    return (_weighed(reader.result) or set()) - {op} if isinstance(reader, SoftmaxOp) else set()


def _copied(value: SSAValue, known: dict[SSAValue, SSAValue]) -> list[Operation]:
    """Return copies of the pointwise operations that lead to a value from known ones, whose copies they read.

    The copies of their results become known.
    """

    def operands(value: SSAValue) -> list[SSAValue]:
        return list(value.owner.operands) if isinstance(value.owner, ElementwiseOp) else []

    copies: list[Operation] = []
    for inner in postorder(value, operands, dict(known)):
        if isinstance(op := inner.owner, ElementwiseOp) and not known.keys().isdisjoint(op.operands):
            copies.append(copy := op.clone(known.copy()))
            copy.location = op.location
            known[inner] = copy.results[0]
    return copies


class Written(RewritePattern):
    """`softmax(f(q @ k.T)) @ v` and `f(q @ k.T) @ v` -> attention, where only attention reads the scores.

    Where several do, or several products read one softmax, each gets a copy of the scores, which it computes
    for less than a store of all of them.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp) or (block := op.parent_block()) is None:
            return
        for found in _found(op):
            product, (scores, _, sinks) = found.product, found.weights
            others = _other_readers(found)
            if others and not _are_attention(product, others, block):
                continue
            shared = _sharing(op, found)
            if not all(any(_found(other)) for other in shared):
                continue
            if (keys := _keys(product.rhs)) is None:
                continue
            b, (new, key) = Emit(), keys
            b.ops += new
            known: dict[SSAValue, SSAValue] = {product.result: b(ScoresOp(product.lhs, key))}
            computed = known[product.result]
            if others or shared:
                b.ops += _copied(scores, known)
                scores = known[scores]
            given = product.lhs, key, op.rhs, scores, sinks
            result = b(attention := ScoredAttentionOp(*given, softmax=found.softmax))
            if computed.type != product.result.type or result.type != op.result.type:
                b.discard()
                continue
            if not others and not shared:
                rewriter.insert(b.ops[:-1], InsertPoint.before(product))
                product.result.replace_all_uses_with(computed)
                b.ops = [attention]
            rewriter.replace(op, b.ops, [result])
            return
