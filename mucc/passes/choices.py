"""Rewrite patterns that turn data movement into selects (`mu.select`) of operands placed in the result.

`concat`, `pad`, `roll`, `tril` and `triu` become choices (`mu.select`) between operands that are placed in
the result's shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops import shape as s
from mucc.dialects.mu.ops.placed import InsideOp, PlaceOp
from mucc.dialects.mu.ops.views import BroadcastOp
from mucc.dialects.mu.types import Dim, Shaped
from mucc.dialects.rewriting import Emit
from mucc.library.extents import add, subtract
from mucc.passes.composites import converted
from mucc.passes.values import dims_of


def _choice(b: Emit, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SSAValue:
    """Choose between two values of one dtype, or bools."""
    if Shaped.of(on_true.type).element_type != i1:
        return b(e.SelectOp(condition, on_true, on_false))
    chosen = b(e.AndOp(condition, on_true))
    return b(e.OrOp(chosen, b(e.AndOp(b(e.NotOp(condition)), on_false))))


def _concat(b: Emit, parts: Sequence[SSAValue], axis: int, extent: Dim) -> SSAValue:
    """Concatenate values of known extents along an axis, with a result of `extent`."""
    if len(parts) == 1:
        return parts[0]
    counts = [dims_of(part)[axis] for part in parts]
    lows = list(accumulate(counts[:-1], add, initial=0))
    placed = [b(PlaceOp(p, axis, low, extent)) for p, low in zip(parts, lows, strict=True)]
    result, rank = placed[-1], len(dims_of(parts[0]))
    for part, low, count in reversed(list(zip(placed, lows, counts, strict=True))[:-1]):
        # Choices go from the first part to the last, so that an upper end is enough.
        is_here = b(InsideOp(rank, axis, extent, 0, add(low, count)))
        result = _choice(b, is_here, part, result)
    return result


class Concat(RewritePattern):
    """`concat(a, b)` -> `inside ? place(a) : place(b)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, s.ConcatOp):
            return
        axis, b = op.axis.value.data, Emit()
        parts = [converted(b, v, op.result) for v in op.inputs]
        result = converted(b, _concat(b, parts, axis, dims_of(op.result)[axis]), op.result)
        rewriter.replace(op, b.ops, [result])


class Roll(RewritePattern):
    """`roll(x, n)` -> `concat(x[-n:], x[:-n])`. A run-time extent is longer than |n|, as `roll` promises."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, s.RollOp):
            return
        axis, x = op.axis.value.data, op.operand
        extent = dims_of(x)[axis]
        shift = op.shift.value.data
        if isinstance(extent, int):
            shift %= extent
        if not shift:
            rewriter.replace(op, [], [x])
            return
        b = Emit()
        first = subtract(extent, shift) if shift > 0 else -shift
        ends = b(s.SliceOp(x, axis, first, extent)), b(s.SliceOp(x, axis, 0, first))
        rewriter.replace(op, b.ops, [converted(b, _concat(b, ends, axis, extent), x)])


class Pad(RewritePattern):
    """`pad(x)` -> a choice between x and a number, or a concatenation of x with slices of it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, s.PadOp):
            return
        b, x = Emit(), op.operand
        for axis, (low, high) in enumerate(zip(op.low.get_values(), op.high.get_values(), strict=True)):
            extent, whole = dims_of(x)[axis], dims_of(op.result)[axis]
            if not low and not high:
                continue
            if op.mode.data is s.Padding.CONSTANT:
                placed = b(PlaceOp(x, axis, low, whole))
                is_here = b(InsideOp(len(dims_of(x)), axis, whole, low, extent))
                x = _choice(b, is_here, placed, b.number(op.value.value.data))
            else:
                x = _concat(b, _padded(b, op.mode.data, x, axis, extent, low, high), axis, whole)
        rewriter.replace(op, b.ops, [converted(b, x, op.operand)])


def _padded(
    b: Emit, mode: s.Padding, x: SSAValue, axis: int, extent: Dim, low: int, high: int
) -> list[SSAValue]:
    """Return what is concatenated along an axis that is padded with elements of its own."""

    def part(start: Dim, stop: Dim) -> SSAValue:
        return b(s.SliceOp(x, axis, start, stop))

    def repeated(index: Dim, count: int) -> SSAValue:
        dims = tuple(count if i == axis else d for i, d in enumerate(dims_of(x)))
        return b(BroadcastOp(part(index, add(index, 1)), dims))

    before = after = None
    match mode:
        case s.Padding.CIRCULAR:
            before = part(subtract(extent, low), extent) if low else None
            after = part(0, high) if high else None
        case s.Padding.REFLECT:
            before = b(s.FlipOp(part(1, low + 1), (axis,))) if low else None
            after = (
                b(s.FlipOp(part(subtract(extent, 1 + high), subtract(extent, 1)), (axis,))) if high else None
            )
        case _:
            before = repeated(0, low) if low else None
            after = repeated(subtract(extent, 1), high) if high else None
    return [p for p in (before, x, after) if p is not None]


MOST_ADDED = 1 << 20
"""The largest diagonal that is added to rows; what an index less than that makes fits 32 bits."""


class Triangle(RewritePattern):
    """`tril(x, d)` -> `row + d >= column ? x : 0`; `row >= column - d` where a sum might wrap."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, s.TriangleOp):
            return
        b, x, dims = Emit(), op.operand, dims_of(op.operand)
        rank = len(dims)
        rows = b(s.IotaOp((*(1,) * (rank - 2), dims[-2], 1), rank - 2))
        columns = b(s.IotaOp((*(1,) * (rank - 1), dims[-1]), rank - 1))
        diagonal = op.diagonal.value.data
        if diagonal > MOST_ADDED:
            columns = b(e.AddOp(columns, b.number(-diagonal)))
        elif diagonal:
            rows = b(e.AddOp(rows, b.number(diagonal)))
        kept = b(e.CmpOp("ge" if op.kind.data is s.Triangle.LOWER else "le", rows, columns))
        if Shaped.of(x.type).element_type == i1:
            result = b(e.AndOp(kept, x))
        else:
            result = converted(b, b(e.SelectOp(kept, x, b.number(0.0))), x)
        rewriter.replace(op, b.ops, [result])


class KnownChoice(RewritePattern):
    """`inside ? a : b` for all indices -> a, for none -> b."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.SelectOp) or not isinstance(inside := op.condition.owner, InsideOp):
            return
        extent = dims_of(inside.result)[inside.axis.value.data]
        low, count = inside.range
        chosen = op.on_true if (low, count) == (0, extent) else op.on_false if count == 0 else None
        if chosen is not None and chosen.type == op.result.type:
            rewriter.replace(op, [], [chosen])


CHOICES = (Concat(), Roll(), Pad(), Triangle())
