"""Restore attention that PyTorch computes in parts: products of f32, and rows of 0 that see nothing."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.folding import literal
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import AttentionOp
from mucc.dialects.mu.ops.contraction import Compute, MatmulOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import FullOp, ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.torch.importer.lowering import dims_of
from mucc.torch.importer.split_axis import Made, is_only_use, made, remade

View = BroadcastOp | ExpandOp | PermuteOp | ReshapeOp | TransposeOp


def attend(op: Operation) -> Made | None:
    """Make attention of a product with the weights of a softmax that is 0 where a row sees nothing.

    ```
    s = (cast(q, f32) * a) @ (cast(k, f32).T * b) + m
    where(not any(not s == -inf), 0, softmax(s)) @ cast(v, f32)
        -> cast(attention(q, k, v, mask=m, scale=a * b), f32)
    ```
    """
    if not isinstance(op, MatmulOp) or not op.has_plain_operands or not is_only_use(op.lhs):
        return None
    if (scores := safe_scores(op.lhs)) is None:
        return None
    mask: SSAValue | None = None
    factor, product = _factor(scores)
    if isinstance(total := scores.owner, e.AddOp):
        (factor, product), mask = _factor(total.lhs), total.rhs
    elif isinstance(total, e.SelectOp) and _constant(total.operands[2]) == -math.inf:
        (factor, product), mask = _factor(total.operands[1]), total.operands[0]
    first = product.owner
    if not isinstance(first, MatmulOp) or not first.has_plain_operands:
        return None
    if len(list(scores.uses)) > 2 or (product is not scores and not is_only_use(product)):
        return None
    if dims_of(product) != dims_of(scores):
        return None
    new: list[Operation] = []
    (left, query), (right, turned) = _factor(first.lhs), _factor(first.rhs)
    given = [_narrow(v, new) for v in (query, turned, op.rhs)]
    dtypes = {Shaped.of(v.type).element_type for v in given}
    as_tf32 = {first.compute.data, op.compute.data} == {Compute.TF32}
    if len(dtypes) > 1 or (dtypes == {f32} and not as_tf32):
        return None
    if mask is not None and Shaped.of(mask.type).element_type not in (i1, bf16, f16, f32):
        return None
    turn = TransposeOp(given[1])
    attention = AttentionOp(given[0], turn.result, given[2], mask, False, factor * left * right)
    new += [turn, attention]
    if attention.result.type == op.result.type:
        return made(*new)
    return made(*new, e.CastOp(attention.result, f32))


def safe_scores(value: SSAValue) -> SSAValue | None:
    """Match PyTorch's safe softmax, which is 0 in rows of -infinity alone; returns its scores."""
    if not isinstance(select := value.owner, e.SelectOp):
        return None
    hidden, zero, softmax = select.operands
    if _constant(zero) != 0 or not isinstance(op := softmax.owner, SoftmaxOp):
        return None
    axis = len(dims_of(softmax)) - 1
    if op.axis.value.data != axis or not isinstance(hidden.owner, e.NotOp):
        return None
    view = hidden.owner.operands[0].owner
    some = view.operand.owner if isinstance(view, ExpandOp) else None
    if not isinstance(some, ReduceOp) or some.kind.data.value != "any":
        return None
    if tuple(some.axes.get_values()) != (axis,) or not isinstance(finite := some.operand.owner, e.NotOp):
        return None
    is_hidden = finite.operands[0].owner
    if not isinstance(is_hidden, e.CmpOp) or is_hidden.relation.data.value != "eq":
        return None
    is_least = _constant(is_hidden.rhs) == -math.inf and is_hidden.lhs is op.operand
    return op.operand if is_least else None


def _constant(value: SSAValue) -> float | None:
    """Return the number that all elements of a value are, casts and broadcasts included; None of others."""
    while isinstance(op := value.owner, BroadcastOp | e.CastOp):
        value = op.operands[0]
    return op.value.value.data if isinstance(op, FullOp) else literal(value)


def _factor(value: SSAValue) -> tuple[float, SSAValue]:
    """Split `x * constant` into the constant, 1 where there is none, and x."""
    factor = 1.0
    while isinstance(op := value.owner, e.MulOp) and (by := _constant(op.rhs)) is not None:
        factor, value = factor * by, op.lhs
    return factor, value


def _narrow(value: SSAValue, new: list[Operation]) -> SSAValue:
    """Undo a cast from 16 bits to f32 behind views; views of what was cast are added to `new`."""
    views: list[View] = []
    inner = value
    while isinstance(op := inner.owner, View):
        views.append(op)
        inner = op.operands[0]
    if not isinstance(cast := inner.owner, e.CastOp):
        return value
    source = cast.operands[0]
    if Shaped.of(source.type).element_type not in (bf16, f16):
        return value
    for view in reversed(views):
        type = TensorType.of(dims_of(view.results[0]), Shaped.of(source.type).element_type)
        new.append(remade(view, [source], type))
        source = new[-1].results[0]
    return source
