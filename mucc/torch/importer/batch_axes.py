"""Give batched products and what is computed of them the axes of batches that a module has merged.

PyTorch's `bmm`, `baddbmm` and `einsum` take one axis of batches, so modules merge those of sequences and
heads before a product, and split them behind it. Attention is recognised where no reshape lies between its
parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Dims
from mucc.library.extents import multiply
from mucc.torch.importer.lowering import dims_of
from mucc.torch.importer.split_axis import Made, Split, give_up, holds_product, is_only_use, made


class _Moved(NamedTuple):
    """A value whose axes are in another order, with axes of extent 1 dropped and inserted."""

    source: SSAValue
    axes: tuple[int | None, ...]
    """For each axis of the result that of the source; None for one of extent 1."""
    steps: int
    """How many operations do it."""


def _moved(value: SSAValue) -> _Moved:
    """Follow a value through operations that only reorder axes, and drop and insert such of extent 1."""
    dims = dims_of(value)
    match op := value.owner:
        case TransposeOp():
            source, axes, steps = _moved(op.operand)
            return _Moved(source, (*axes[:-2], axes[-1], axes[-2]), steps + 1)
        case PermuteOp():
            source, axes, steps = _moved(op.operand)
            return _Moved(source, tuple(axes[a] for a in op.order.get_values()), steps + 1)
        case ExpandOp() | SqueezeOp() | ReshapeOp() if _long(dims_of(op.operand)) == _long(dims):
            source, axes, steps = _moved(op.operand)
            kept = iter([a for a, d in zip(axes, dims_of(op.operand), strict=True) if d != 1])
            return _Moved(source, tuple(None if d == 1 else next(kept) for d in dims), steps + 1)
        case _:
            return _Moved(value, tuple(None if d == 1 else a for a, d in enumerate(dims)), 0)


def _long(dims: Dims) -> list[Dim]:
    """Return the extents but those of 1."""
    return [d for d in dims if d != 1]


def _rearranged(source: SSAValue, kept: Sequence[int], dims: Dims) -> list[Operation]:
    """Return operations that make `dims` of a source: these of its axes in this order, others of extent 1."""
    ones = [a for a in range(len(dims_of(source))) if a not in kept]
    if list(kept) == sorted(kept):
        return _with_ones(source, kept, dims)
    if len(ones) == dims.count(1):
        given, others = iter(kept), iter(ones)
        return [PermuteOp(source, [next(others if d == 1 else given) for d in dims])]
    new: list[Operation] = []
    value = source
    if ones:
        new.append(squeeze := SqueezeOp(value, ones))
        value = squeeze.result
    new.append(permute := PermuteOp(value, [sorted(kept).index(a) for a in kept]))
    if inserted := [n for n, d in enumerate(dims) if d == 1]:
        new.append(ExpandOp(permute.results[0], inserted))
    return new


def _with_ones(source: SSAValue, kept: Sequence[int], dims: Dims) -> list[Operation]:
    """Return operations that drop and insert axes of extent 1, no more than have to be between two others."""
    places = [a for a, d in enumerate(dims) if d != 1]
    gaps = zip((-1, *kept), (*kept, len(dims_of(source))), (-1, *places), (*places, len(dims)), strict=True)
    dropped, inserted = list[int](), list[int]()
    for before, behind, left, right in gaps:
        more = (right - left) - (behind - before)
        dropped += range(before + 1, before + 1 - min(more, 0))
        inserted += range(right - max(more, 0), right)
    new: list[Operation] = []
    if dropped:
        new.append(SqueezeOp(source, dropped))
    if inserted:
        new.append(ExpandOp(new[-1].results[0] if new else source, inserted))
    return new


def _before_merge(long: Sequence[Dim], merged: Dims) -> Dims:
    """Return extents with the axes of extent 1 that others have, as far as their last axes are the same."""
    rest, tail = list(long), list[Dim]()
    for extent in reversed(merged):
        if extent != 1 and (not rest or rest.pop() != extent):
            break
        tail.insert(0, extent)
    return (*long[: len(long) - len(_long(tuple(tail)))], *tail)


def joined_views(op: Operation) -> Made | None:
    """Compute several views by fewer: `permute(permute(x, a), b)` -> `permute(x, c)`, reshapes by one.

    Axes of extent 1 that are inserted, moved and dropped again are left out.
    """
    if isinstance(op, ReshapeOp | SqueezeOp) and isinstance(inner := op.operand.owner, ReshapeOp):
        source, dims = inner.operand, dims_of(op.result)
        return ((), source) if dims_of(source) == dims else made(ReshapeOp(source, dims))
    if not isinstance(op, ReshapeOp | TransposeOp | PermuteOp | ExpandOp | SqueezeOp):
        return None
    merges = isinstance(op, ReshapeOp) and _long(dims_of(op.operand)) != _long(dims_of(op.result))
    source, axes, steps = _moved(op.operand if merges else op.result)
    if steps == 0:
        return None
    kept = [a for a in axes if a is not None]
    dims = dims_of(op.result)
    if not merges:
        new = _rearranged(source, kept, dims)
    else:
        new = _rearranged(source, kept, _before_merge([dims_of(source)[a] for a in kept], dims))
        new.append(ReshapeOp(new[-1].results[0] if new else source, dims))
        steps += 1
    # Of as many operations such that drop axes come first, and such that insert axes last.
    turned = len(new) == steps and isinstance(op, SqueezeOp) and isinstance(new[-1], PermuteOp)
    if len(new) >= steps and not turned:
        return give_up(new)
    return new, new[-1].results[0] if new else source


def split_batches(op: Operation) -> Made | None:
    """Give a product the axes of batches of an operand, or what is computed of products those of a reshape.

    ```
    reshape(a, (B*H, M, K)) @ reshape(b, (B*H, K, N)) -> reshape(a @ b, (B*H, M, N))
    softmax(reshape(s, (B*H, M, N))) @ v              -> reshape(softmax(s) @ reshape(v, (B, H, N, E)), ..)
    reshape(a @ b + c, (B, H, M, N))                  -> reshape(a, ..) @ reshape(b, ..) + reshape(c, ..)
    reshape(a, (B*H, G*M, K)) @ reshape(b, (B*H, K, N)) -> reshape(a @ b[:, :, None], (B*H, G*M, N))
    reshape(a @ b, (B, H, G, M, N))                   -> reshape(a, ..) @ reshape(b, ..)[:, :, None]
    squeeze(a @ b)                                    -> squeeze(a) @ squeeze(b)
    ```
    """
    match op:
        case MatmulOp() if op.has_plain_operands and len(dims_of(op.lhs)) == len(dims_of(op.rhs)):
            left, right = _merged(op.lhs), _merged(op.rhs)
            if right is not None and left != right:
                rows = _split_rows(op, right)
                if rows is not None or left is None:
                    return rows
            if left is None or (right is None and not _is_softmax(op.lhs)):
                return None
            split = Split(left, dims_of(op.result))
            return split.merged(op.result)
        case e.ElementwiseOp() | SoftmaxOp() if holds_product(op.results[0]):
            merged = (_merged(v) for v in op.operands if isinstance(v.owner, ReshapeOp))
            lead = next((lead for lead in merged if lead is not None), None)
            if lead is None:
                return None
            split = Split(lead, dims_of(op.results[0]))
            return split.merged(op.results[0])
        case SqueezeOp() if isinstance(product := op.operand.owner, MatmulOp) and is_only_use(op.operand):
            return _without_axes(op, product)
        case ReshapeOp() if holds_product(op.operand, alone=True):
            dims, given = dims_of(op.result), dims_of(op.operand)
            lead = dims[: len(dims) - len(given) + 1]
            if len(lead) < 2 or len(given) < 3:
                return None
            if dims[len(lead) :] != given[1:]:
                return _split_result(op)
            split = Split(lead, given)
            value = split.of(op.operand)
            return give_up(split.new) if value is None else (split.new, value)
        case _:
            return None


def _split_rows(op: MatmulOp, lead: Dims) -> Made | None:
    """Split batches and rows of a product whose left operand has both merged: queries that share keys.

    Rows in another order than that of the weights are brought into it behind the product.
    """
    if not isinstance(merge := op.lhs.owner, ReshapeOp):
        return None
    given, left = dims_of(merge.operand), dims_of(op.lhs)
    rows = given[len(lead) : -1]
    if given[: len(lead)] != lead or len(rows) < 2 or given[-1] != left[-1] or multiply(rows) != left[-2]:
        return None
    split = Split(lead, left)
    if (right := split.of(op.rhs)) is None:
        return give_up(split.new)
    shared = ExpandOp(right, range(len(lead), len(lead) + len(rows) - 1))
    weights, order = merge.operand, list(range(len(given)))
    if isinstance(turned := weights.owner, PermuteOp):
        moved = [a for n, a in enumerate(turned.order.get_values()) if a != n]
        if all(len(lead) <= a < len(given) - 1 for a in moved):
            weights, order = turned.operand, list(turned.order.get_values())
    new = [*split.new, shared, product := MatmulOp(weights, shared.result, op.compute, op.acc)]
    value = product.result
    if weights is not merge.operand:
        new.append(back := PermuteOp(value, order))
        value = back.result
    return made(*new, ReshapeOp(value, dims_of(op.result)))


def _split_result(op: ReshapeOp) -> Made | None:
    """Split batches and rows of a product that is reshaped: queries that share keys."""
    if not isinstance(product := op.operand.owner, MatmulOp) or not product.has_plain_operands:
        return None
    given, dims, left = dims_of(op.operand), dims_of(op.result), dims_of(product.lhs)
    if len(given) != 3 or len(left) != 3 or len(dims_of(product.rhs)) != 3 or dims[-1] != given[-1]:
        return None
    counts = [n for n in range(2, len(dims) - 2) if multiply(dims[:n]) == given[0]]
    count = next((n for n in counts if multiply(dims[n:-1]) == given[1]), None)
    if count is None or len(rows := _long(dims[count:-1])) < 2:
        return None
    split = Split(dims[:count], given)
    if (right := split.of(product.rhs)) is None:
        return give_up(split.new)
    shared = ExpandOp(right, range(count, count + len(rows) - 1))
    queries = ReshapeOp(product.lhs, (*dims[:count], *rows, left[-1]))
    new = [*split.new, shared, queries]
    new.append(batched := MatmulOp(queries.result, shared.result, product.compute, product.acc))
    if ones := [n for n, d in enumerate(dims) if count <= n < len(dims) - 1 and d == 1]:
        new.append(ExpandOp(batched.result, ones))
    return new, new[-1].results[0]


def _without_axes(op: SqueezeOp, product: MatmulOp) -> Made | None:
    """Drop axes of batches, of extent 1, of operands in place of those of a product."""
    axes, rank = list(op.axes.get_values()), len(dims_of(product.result))
    operands = (product.lhs, product.rhs)
    if max(axes) >= rank - 2 or any(len(dims_of(v)) != rank for v in operands):
        return None
    if not product.has_plain_operands:
        return None
    left, right = (SqueezeOp(v, axes) for v in operands)
    return made(left, right, MatmulOp(left.result, right.result, product.compute, product.acc))


def _merged(value: SSAValue) -> Dims | None:
    """Return the axes that are merged to the first one of an operand, whose others stay as they are."""
    pending, seen = [value], {value}
    while pending:
        op = (value := pending.pop()).owner
        if isinstance(op, ReshapeOp):
            dims, given = dims_of(value), dims_of(op.operand)
            lead = given[: len(given) - len(dims) + 1]
            if len(lead) > 1 and len(dims) > 2 and given == (*lead, *dims[1:]) and dims[0] == multiply(lead):
                return lead
        elif isinstance(op, e.ElementwiseOp | TransposeOp | SoftmaxOp):
            more = [v for v in op.operands if v not in seen and len(dims_of(v)) == len(dims_of(value))]
            seen.update(more)
            pending += more
    return None


def _is_softmax(value: SSAValue) -> bool:
    while isinstance(op := value.owner, e.CastOp | ReshapeOp | e.SelectOp):
        value = op.operands[-1]  # of a softmax that is 0 in rows that see nothing
    return isinstance(op, SoftmaxOp)
