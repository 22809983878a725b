"""Interpret scans, sorting, softmax, normalisation and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue

from mucc.dialects.mu.arrays import Arrays, wrapped
from mucc.dialects.mu.meanings.base import Machine, Meaning
from mucc.dialects.mu.meanings.reduction import variance
from mucc.dialects.mu.ops.attention import (
    NARROW_WEIGHT,
    AttentionBackwardOp,
    AttentionGradientOp,
    AttentionLogSumExpOp,
    AttentionOp,
    GradientOp,
    ScoredAttentionOp,
    ScoresOp,
    ScoringOp,
    Wanted,
)
from mucc.dialects.mu.ops.normalisation import (
    LogSoftmaxOp,
    LogSumExpOp,
    Normalisation,
    NormalizeOp,
    SoftmaxOp,
)
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.scan import Scan, ScanOp
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.types import Shaped, dtype_name
from mucc.library.errors import MuccValueError


def kept(machine: Machine, kind: str, x: Any, axes: Sequence[int]) -> Any:
    """Reduce over axes, and keep the axes with extent 1."""
    shape = tuple(1 if i in set(axes) else int(n) for i, n in enumerate(x.shape))
    return machine.arrays.reduce(kind, x, tuple(axes)).reshape(shape)


def scan(arrays: Arrays, kind: Scan, x: Any, axis: int, *, reverse: bool, exclusive: bool) -> Any:
    """Compute running sums or products along an axis."""
    xp = arrays.xp
    if reverse:
        x = xp.flip(x, (axis,))
    result = (xp.cumsum if kind is Scan.SUM else xp.cumprod)(x, axis)
    if exclusive:
        outer = (slice(None),) * axis
        ones = result[(*outer, slice(0, 1))] ** 0
        before = result[(*outer, slice(0, int(x.shape[axis]) - 1))]
        result = xp.concatenate((ones - 1 if kind is Scan.SUM else ones, before), axis)
    return xp.flip(result, (axis,)) if reverse else result


def _scan(machine: Machine, op: ScanOp, x: Any) -> Any:
    flags = {"reverse": op.reverse is not None, "exclusive": op.exclusive is not None}
    if Shaped.of(op.result.type).element_type != S32:
        return scan(machine.arrays, op.kind.data, x, op.axis.value.data, **flags)
    integers = scan(machine.arrays, op.kind.data, machine.arrays.whole(x), op.axis.value.data, **flags)
    return wrapped(machine.arrays, integers)


def sorted_along(
    arrays: Arrays, x: Any, axis: int, *, descending: bool, count: int | None
) -> tuple[Any, Any]:
    """Sort along an axis; return the first `count` values, or all, and their positions."""
    xp, extent = arrays.xp, int(x.shape[axis])
    if descending:
        # Backwards, so that equal elements keep their order when all of it is reversed.
        positions = extent - 1 - xp.flip(arrays.order(xp.flip(x, (axis,)), axis), (axis,))
    else:
        positions = arrays.order(x, axis)
    positions = positions[(*(slice(None),) * axis, slice(0, count))]
    return arrays.take_along(x, positions, axis), arrays.float64(positions)


def _sort(machine: Machine, op: SortOp, x: Any) -> Any:
    """Interpret `mu.sort`. Raises MuccValueError MU6011 where there are fewer elements than it is to take."""
    count, axis = op.taken, op.axis.value.data
    if count is not None and count > int(x.shape[axis]):
        raise MuccValueError("MU6011", f"topk is to take {count} of {int(x.shape[axis])} elements")
    values, positions = sorted_along(
        machine.arrays, x, axis, descending=op.descending is not None, count=count
    )
    return values if op.positions is None else positions


def softmax(machine: Machine, x: Any, axis: int) -> Any:
    raised = machine.arrays.xp.exp(x - kept(machine, "max", x, (axis,)))
    return raised / kept(machine, "sum", raised, (axis,))


def _weights(machine: Machine, scores: Any) -> Any:
    """Compute the softmax of each row; 0 for a row whose columns are all masked (-infinity)."""
    xp, axis = machine.arrays.xp, len(scores.shape) - 1
    most = kept(machine, "max", scores, (axis,))
    is_masked = most == -math.inf
    raised = xp.exp(scores - xp.where(is_masked, machine.arrays.full((), 0.0), most))
    total = kept(machine, "sum", raised, (axis,))
    return raised / xp.where(is_masked, machine.arrays.full((), 1.0), total)


def _log_softmax(machine: Machine, x: Any, axis: int) -> Any:
    xp, below = machine.arrays.xp, x - kept(machine, "max", x, (axis,))
    return below - xp.log(kept(machine, "sum", xp.exp(below), (axis,)))


def _log_sum(machine: Machine, x: Any, axes: tuple[int, ...]) -> Any:
    xp = machine.arrays.xp
    most = kept(machine, "max", x, axes)
    most = xp.where(xp.isfinite(most), most, machine.arrays.full((), 0.0))
    total = xp.log(machine.arrays.reduce("sum", xp.exp(x - most), axes))
    return total + most.reshape(tuple(total.shape))


def _normalize(machine: Machine, op: NormalizeOp, x: Any) -> Any:
    axes, eps = tuple(op.axes.get_values()), op.eps.value.data
    if op.kind.data is Normalisation.RMS:
        return x / machine.arrays.xp.sqrt(kept(machine, "mean", x * x, axes) + eps)
    mean = kept(machine, "mean", x, axes)
    spread = variance(machine, x, axes, 0.0).reshape(tuple(mean.shape))
    return (x - mean) / machine.arrays.xp.sqrt(spread + eps)


def _given(op: Operation, operand: SSAValue | None, values: Sequence[Any]) -> Any:
    """Return the value of an operand; None where the operation does not have it."""
    return None if operand is None else values[list(op.operands).index(operand)]


def _rows(machine: Machine, op: ScoringOp, operand: SSAValue, values: Sequence[Any]) -> Any:
    """Return the keys or values of each sequence, which may lie in pages."""
    rows = machine.factor(op, operand, _given(op, operand, values))
    if op.pages is None:
        return rows
    rank = len(Shaped.of(op.pages.type).dims) + 1
    return in_pages(machine, rows, _given(op, op.pages, values), rank)


def _masked_scores(
    machine: Machine, op: AttentionOp | AttentionLogSumExpOp | GradientOp, q: Any, k: Any, mask: Any
) -> Any:
    xp, nothing = machine.arrays.xp, machine.arrays.full((), -math.inf)
    scale = 1 / math.sqrt(q.shape[-1]) if op.scale is None else op.scale.value.data
    scores = scale * (q @ xp.swapaxes(k, -1, -2))
    if op.mask is not None and Shaped.of(op.mask.type).element_type == i1:
        return xp.where(mask, scores, nothing)
    return scores if mask is None else scores + mask


def causal_scores(machine: Machine, scores: Any) -> Any:
    """Hide the columns behind each row's own."""
    seen = machine.arrays.xp.tril(machine.arrays.full(tuple(scores.shape[-2:]), 1.0)) > 0
    return machine.arrays.xp.where(seen, scores, machine.arrays.full((), -math.inf))


def _attention(machine: Machine, op: AttentionOp, values: tuple[Any, ...]) -> Any:
    q = machine.factor(op, op.query, values[0])
    k, v = (_rows(machine, op, operand, values) for operand in (op.key, op.value))
    scores = _masked_scores(machine, op, q, k, _given(op, op.mask, values))
    sinks = _given(op, op.sinks, values)
    return attended(machine, scores, v, op.value.type, causal=op.causal is not None, sinks=sinks)


def _attention_sums(machine: Machine, op: AttentionLogSumExpOp, values: tuple[Any, ...]) -> Any:
    q, k = machine.factor(op, op.query, values[0]), _rows(machine, op, op.key, values)
    scores = _masked_scores(machine, op, q, k, _given(op, op.mask, values))
    return score_sums(machine, causal_scores(machine, scores) if op.causal is not None else scores)


def score_sums(machine: Machine, scores: Any) -> Any:
    """Return the logarithm of each row's sum of exponentials."""
    return _log_sum(machine, scores, (len(scores.shape) - 1,))


def _gradient(machine: Machine, op: GradientOp, values: tuple[Any, ...]) -> Any:
    gradient, q, k, v = (machine.factor(op, o, x) for o, x in zip(op.operands[:4], values[:4], strict=True))
    scores = _masked_scores(machine, op, q, k, _given(op, op.mask, values))
    if op.causal is not None:
        scores = causal_scores(machine, scores)
    rows = values[5]
    if isinstance(op, AttentionGradientOp) and len(rows.shape) == len(gradient.shape):
        rows = machine.arrays.reduce("sum", gradient * rows, (len(rows.shape) - 1,))
    scale = 1 / math.sqrt(q.shape[-1]) if op.scale is None else op.scale.value.data
    types = (op.gradient.type, op.result.type)
    return gradient_of(machine, op.of.data, scores, (gradient, q, k, v, values[4], rows), scale, types)


def gradient_of(
    machine: Machine,
    of: Wanted,
    scores: Any,
    values: Sequence[Any],
    scale: float,
    types: tuple[Attribute, Attribute],
) -> Any:
    """Compute a gradient of attention from its scores; values are those of `mu.attention_backward`.

    `types` are those of the gradient of attention's result, whose dtype weights are rounded to, and of the
    gradient that is computed.
    """
    gradient, q, k, v, sums, rows = values
    xp, narrow = machine.arrays.xp, types[0]
    column = (*sums.shape, 1)
    is_empty = sums == -math.inf
    shift = xp.where(is_empty, machine.arrays.full((), math.inf), sums).reshape(column)
    weights = xp.exp(scores - shift)
    if of is Wanted.VALUE:
        given = xp.swapaxes(machine.narrowed(weights, narrow), -1, -2) @ gradient
    else:
        given = weights * (gradient @ xp.swapaxes(v, -1, -2) - rows.reshape(column))
        if of is not Wanted.MASK:
            changes = machine.narrowed(given, narrow)
            given = scale * (changes @ k if of is Wanted.QUERY else xp.swapaxes(changes, -1, -2) @ q)
    shape = machine.shape(types[1])
    leading = len(given.shape) - len(shape)
    repeated = [leading + a for a, n in enumerate(shape) if n == 1 != given.shape[leading + a]]
    return machine.arrays.reduce("sum", given, (*range(leading), *repeated)).reshape(shape)


def in_pages(machine: Machine, rows: Any, pages: Any, rank: int) -> Any:
    """Return the rows `[B, .., N * R, D]`, `rank` axes, of each sequence's pages.

    `rows` `[.., P, R, D]` has those of all pages. Leading axes of extent 1 may be missing.
    """
    xp = machine.arrays.xp
    rows = rows.reshape((*(1,) * (rank - len(rows.shape)), *rows.shape))
    table: list[list[float]] = pages.reshape((-1, pages.shape[-1])).tolist()
    if any(not 0 <= n < int(rows.shape[-3]) for row in table for n in row):
        raise MuccValueError("MU6024", f"a table names a page that is none of {int(rows.shape[-3])}")
    found = [rows[..., [int(n) for n in row], :, :] for row in table]
    return xp.stack([x.reshape((*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1])) for x in found])


def _scores(machine: Machine, op: ScoresOp, values: tuple[Any, ...]) -> Any:
    q, k = machine.factor(op, op.query, values[0]), _rows(machine, op, op.key, values)
    return q @ machine.arrays.xp.swapaxes(k, -1, -2)


def _scored_attention(machine: Machine, op: ScoredAttentionOp, values: tuple[Any, ...]) -> Any:
    value = _rows(machine, op, op.value, values)
    if op.without_softmax is not None:
        return machine.narrowed(values[3], op.value.type) @ value
    sinks = _given(op, op.sinks, values)
    empty = math.nan if sinks is None else 0.0
    return attended(machine, values[3], value, op.value.type, causal=False, empty=empty, sinks=sinks)


def attended(
    machine: Machine,
    scores: Any,
    value: Any,
    type: Attribute,
    *,
    causal: bool,
    empty: float = 0.0,
    sinks: Any = None,
) -> Any:
    """Multiply values with the softmax of scores, rounded to the dtype of the values.

    Rows without a score above -infinity are `empty`, 0 or NaN. `sinks` are the scores of a column without a
    value.
    """
    if causal:
        scores = causal_scores(machine, scores)
    weights = _weights(machine, scores) if empty == 0 else softmax(machine, scores, len(scores.shape) - 1)
    if sinks is not None:
        sums = score_sums(machine, scores)
        # The share of all columns but the sink: 1 / (1 + exp(sink - sum)).
        below = machine.arrays.xp.exp(sinks - sums.reshape((*sums.shape, 1)))
        weights = weights / (1 + below)
    if dtype_name(Shaped.of(type).element_type) != "e4m3":
        return machine.narrowed(weights, type) @ value
    # Kernels round exponentials, the largest of which is NARROW_WEIGHT, before they are divided by their sum.
    xp, arrays = machine.arrays.xp, machine.arrays
    most = arrays.reduce("max", weights, (len(weights.shape) - 1,)).reshape((*weights.shape[:-1], 1))
    by = xp.where(most > 0, most, arrays.full((), 1.0)) / NARROW_WEIGHT
    return machine.narrowed(weights / by, type) @ value * by


MEANINGS: dict[type[Operation], Meaning] = {
    ScanOp: lambda m, op, v: _scan(m, op, v[0]),
    SortOp: lambda m, op, v: _sort(m, op, v[0]),
    SoftmaxOp: lambda m, op, v: softmax(m, v[0], op.axis.value.data),
    LogSoftmaxOp: lambda m, op, v: _log_softmax(m, v[0], op.axis.value.data),
    LogSumExpOp: lambda m, op, v: _log_sum(m, v[0], tuple(op.axes.get_values())),
    NormalizeOp: lambda m, op, v: _normalize(m, op, v[0]),
    AttentionOp: lambda m, op, v: _attention(m, op, v),
    ScoresOp: lambda m, op, v: _scores(m, op, v),
    ScoredAttentionOp: lambda m, op, v: _scored_attention(m, op, v),
    AttentionLogSumExpOp: lambda m, op, v: _attention_sums(m, op, v),
    AttentionGradientOp: lambda m, op, v: _gradient(m, op, v),
    AttentionBackwardOp: lambda m, op, v: _gradient(m, op, v),
}
