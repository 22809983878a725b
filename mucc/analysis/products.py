"""Multiplications and additions of contractions, convolutions and attention, by unit and number format."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Attribute, Operation

from mucc.analysis.masks import hides_by_data
from mucc.dialects.mu.ops.attention import (
    AttentionLogSumExpOp,
    AttentionOp,
    GradientOp,
    ScoredAttentionOp,
    Wanted,
)
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr, ContractionOp
from mucc.dialects.mu.ops.conv import ConvolutionOp, ConvTransposeOp
from mucc.dialects.mu.rules import is_sparse
from mucc.dialects.mu.types import Dim, Dims, Shaped
from mucc.dialects.mu.windows import Window

Term = list[int | float | str]
"""A product of a number and dims."""


def term(factor: float, dims: Sequence[Dim]) -> Term:
    """Build a term; fixed extents are multiplied into its number."""
    number = factor * math.prod(d for d in dims if isinstance(d, int))
    return [number, *(d for d in dims if isinstance(d, str))]


def _unit(compute: Compute) -> tuple[str, int]:
    """Return the unit that multiplies in a format, and its operations per multiply-add."""
    match compute:
        case Compute.F32:
            return "fp32", 2
        case Compute.TF32X3:
            return "tensor.tf32", 3 * 2
        case _:
            return f"tensor.{compute.value}", 2


def products(op: Operation, *, masked: bool = False) -> list[tuple[str, Term]]:
    """Count the multiply-adds of one operation by unit; empty without matrix products.

    Where tensors decide which columns a row of attention sees, it may see one: others count where `masked`.
    """
    match op:
        case ContractionOp():
            unit, count = _unit(op.compute.data)
            if is_sparse(op.lhs.type) or is_sparse(op.rhs.type):
                count //= 2  # half of the products are left out
            return [(unit, term(count, (*_dims(op.result.type), _dims(op.lhs.type)[-1])))]
        case ConvolutionOp():
            unit, count = _unit(op.compute.data)
            return [(unit, term(count, _taken(op)))]
        case AttentionOp() | ScoredAttentionOp():
            return _attention(op, masked)
        case AttentionLogSumExpOp():
            return _attention_sums(op, masked)
        case GradientOp():
            return _gradients(op, masked)
        case _:
            return []


def _dims(type: Attribute) -> Dims:
    return Shaped.of(type).dims


def _taken(op: ConvolutionOp) -> list[Dim]:
    """Factors of the number of products of a convolution, those with padding left out.

    A transposed convolution multiplies what a convolution from its result to its operand would.
    """
    wide, narrow = _dims(op.operand.type), op.result_dims
    if isinstance(op, ConvTransposeOp):
        wide, narrow = narrow, wide
    weight = _dims(op.weight.type)
    factors: list[Dim] = [wide[0], weight[0], weight[1]]
    for window, extent, places in zip(op.windows, wide[2:], narrow[2:], strict=True):
        factors += _seen(window, extent, places)
    return factors


def _seen(window: Window, extent: Dim, places: Dim) -> list[Dim]:
    """Count the elements that a window covers at all positions; with padding over a run-time extent."""
    if isinstance(extent, int) and isinstance(places, int):
        return [window.count_seen(extent, places)]
    return [places, window.size]


def _attention(op: AttentionOp | ScoredAttentionOp, masked: bool) -> list[tuple[str, Term]]:
    """Count both products of attention; of square causal attention only the unmasked part."""
    widths = (_dims(op.query.type)[-1], _dims(op.value.type)[-1])
    causal = isinstance(op, AttentionOp) and op.causal is not None
    return _pairs(op, (*_dims(op.result.type)[:-1], op.columns), widths, causal, masked)


def _attention_sums(op: AttentionLogSumExpOp, masked: bool) -> list[tuple[str, Term]]:
    """Count the products of scores, which attention of the same scores has already counted."""
    if any(op.is_of(use.operation) for use in op.query.uses):
        return []
    widths = (_dims(op.query.type)[-1],)
    return _pairs(op, (*_dims(op.result.type), op.columns), widths, op.causal is not None, masked)


def _gradients(op: GradientOp, masked: bool) -> list[tuple[str, Term]]:
    """Count the products of a gradient of attention.

    Those of queries with keys, and of gradients with values, are counted once for all gradients of one
    attention.
    """
    width, result_width = _dims(op.query.type)[-1], _dims(op.value.type)[-1]
    own = {Wanted.VALUE: [result_width], Wanted.MASK: []}
    widths = list(own.get(op.of.data, [width]))
    beside = [o for use in op.gradient.uses if isinstance(o := use.operation, GradientOp) and op.is_beside(o)]
    others = [o for o in beside if o is not op and o.is_before_in_block(op)]
    if not others:
        widths.append(width)
    if op.of.data is not Wanted.VALUE and all(o.of.data is Wanted.VALUE for o in others):
        widths.append(result_width)
    scores = (*_dims(op.gradient.type)[:-1], _dims(op.key.type)[-2])
    return _pairs(op, scores, widths, op.causal is not None, masked)


def _pairs(
    op: AttentionOp | ScoredAttentionOp | AttentionLogSumExpOp | GradientOp,
    scores: Dims,
    widths: Sequence[Dim],
    causal: bool,
    masked: bool,
) -> list[tuple[str, Term]]:
    """Count products of so many elements for each pair of a query and a key that it sees, of all `scores`."""
    unit, count = _unit(ComputeAttr.default(op.query.type, op.key.type).data)
    *lead, rows, columns = scores
    if hides_by_data(op) and not masked:
        columns, causal = 1, False
    found: list[tuple[str, Term]] = []
    for inner in widths:
        if not causal or (rows != columns and not (isinstance(rows, int) and isinstance(columns, int))):
            found.append((unit, term(count, (*lead, rows, columns, inner))))
        elif isinstance(rows, int) and isinstance(columns, int):
            seen = sum(min(row + 1, columns) for row in range(rows))
            found.append((unit, term(count * seen, (*lead, inner))))
        else:
            half = count // 2  # rows * (rows + 1) / 2 of the pairs
            found += [
                (unit, term(half, (*lead, rows, rows, inner))),
                (unit, term(half, (*lead, rows, inner))),
            ]
    return found
