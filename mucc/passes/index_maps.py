"""Rewrite patterns that sink index maps: slices, flips and placed operands.

They sink through pointwise work and other views to what lies in memory, so that the kernel that needs the
elements reads them where they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops import shape as s
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.indexed import GatherOp, PickOp
from mucc.dialects.mu.ops.placed import InsideOp, PlaceOp
from mucc.dialects.mu.ops.views import (
    BroadcastOp,
    ExpandOp,
    IndexMapOp,
    PermuteOp,
    SqueezeOp,
    TransposeOp,
)
from mucc.dialects.mu.types import Shaped, TensorType, dtype_bits, is_packed
from mucc.dialects.rewriting import Emit
from mucc.dialects.walk import postorder
from mucc.passes.choices import CHOICES, KnownChoice
from mucc.passes.column_ranges import is_stored_by_ranges, ranges_of
from mucc.passes.composites import converted
from mucc.passes.values import dims_of


def _again(op: IndexMapOp, value: SSAValue, axis: int) -> IndexMapOp:
    """Apply an index map of one axis to another value, along one of its axes."""
    match op:
        case s.SliceOp():
            return s.SliceOp(value, axis, *op.range)
        case s.FlipOp():
            return s.FlipOp(value, (axis,))
        case PlaceOp():
            return PlaceOp(value, axis, op.low.data, dims_of(op.result)[op.axis.value.data])
        case _:
            raise AssertionError(f"{op.name} is no index map")


def _axis(op: IndexMapOp) -> int:
    return op.moves[0].axis


class OneAxis(RewritePattern):
    """`flip(x, (0, 1))` -> `flip(flip(x, 0), 1)`, and of no axis -> x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, s.FlipOp) or len(axes := op.axes.get_values()) == 1:
            return
        b, value = Emit(), op.operand
        for axis in axes:
            value = b(s.FlipOp(value, (axis,)))
        rewriter.replace(op, b.ops, [value])


class WholeSlice(RewritePattern):
    """All elements in order, or an axis of one element reversed -> x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        match op:
            case s.SliceOp():
                is_whole = dims_of(op.operand) == dims_of(op.result) and op.range[0] == 0 and op.range[2] == 1
            case PlaceOp():
                is_whole = dims_of(op.operand) == dims_of(op.result)
            case s.FlipOp():
                is_whole = all(dims_of(op.operand)[axis] == 1 for axis in op.axes.get_values())
            case _:
                return
        if is_whole:
            rewriter.replace(op, [], [op.operand])


@dataclass(frozen=True)
class ThroughPointwise(RewritePattern):
    """`slice(x + v)` -> `slice(x) + slice(v)`, where no kernel stores the sum anyway."""

    target: str

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, IndexMapOp) or not isinstance(inner := op.operand.owner, e.ElementwiseOp):
            return
        if len(op.moves) != 1 or not _is_free(op.operand) or _is_copy(inner):
            return
        if any(is_packed(Shaped.of(v.type).element_type) for v in inner.operands):
            return  # what shares bytes is not moved
        if is_stored_by_ranges(op.operand, self.target):
            return
        if not all(_can_move(op, inside) for inside in _insides(op.operand, _axis(op))):
            return
        b, axis, rank = Emit(), _axis(op), len(dims_of(op.operand))
        operands = [_moved(b, op, v, axis - (rank - len(dims_of(v)))) for v in inner.operands]
        type = TensorType.of(dims_of(op.result), Shaped.of(inner.result.type).element_type)
        new = inner.__class__.create(
            operands=operands, result_types=[type], properties=dict(inner.properties)
        )
        rewriter.replace(op, [*b.ops, new])


def _numbers(op: IndexMapOp) -> int | None:
    """Return the number by which an index map moves along its axis; None if it depends on run-time dims.

    It is the start of a slice, the index at which an operand is placed, and 0 for flips.
    """
    axis = _axis(op)
    moved = op.range[0] if isinstance(op, s.SliceOp) else op.low.data if isinstance(op, PlaceOp) else 0
    extents = (dims_of(op.operand)[axis], dims_of(op.result)[axis])
    return moved if isinstance(moved, int) and all(isinstance(extent, int) for extent in extents) else None


def _can_move(op: IndexMapOp, inside: InsideOp) -> bool:
    """Whether an index map of a condition on the index is another condition whose bounds are numbers."""
    return _numbers(op) is not None and all(isinstance(bound, int) for bound in inside.range)


def _insides(value: SSAValue, axis: int) -> list[InsideOp]:
    """Return the conditions on the index along an axis that a pointwise value depends on.

    They may be repeated or placed along other axes on the way.
    """
    rank = len(dims_of(value))
    owners = [found.owner for found in postorder(value, _pointwise_operands)]
    found = [owner for owner in owners if isinstance(owner, InsideOp)]
    return [i for i in found if i.axis.value.data + rank - len(dims_of(i.result)) == axis]


def _pointwise_operands(value: SSAValue) -> Sequence[SSAValue]:
    return value.owner.operands if isinstance(value.owner, (e.ElementwiseOp, BroadcastOp, IndexMapOp)) else ()


def _operands(value: SSAValue) -> Sequence[SSAValue]:
    return value.owner.operands if isinstance(value.owner, Operation) else ()


def _moved(b: Emit, op: IndexMapOp, value: SSAValue, axis: int) -> SSAValue:
    """Apply an index map to a value that broadcasts to its operand; extent 1 along the axis stays.

    Where the extent of the whole operand is 1, a value is placed all the same.
    """
    stays = axis < 0 or (dims_of(value)[axis] == 1 and dims_of(op.operand)[_axis(op)] != 1)
    return value if stays else b(_again(op, value, axis))


def _is_copy(op: e.ElementwiseOp) -> bool:
    """Whether an operation stands for storing its operand, as `_stored` writes it."""
    return isinstance(op, e.RetypeOp) and op.operand.type == op.result.type


def _is_free(value: SSAValue) -> bool:
    """Whether a pointwise value is computed for index maps only, or from parameters alone."""
    if all(isinstance(use.operation, IndexMapOp) for use in value.uses):
        return True
    return not any(isinstance(found.owner, AnchorOp) for found in postorder(value, _operands))


class ThroughView(RewritePattern):
    """`slice(transpose(x))` -> `transpose(slice(x))`, and so for other views."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, IndexMapOp) or len(op.moves) != 1:
            return
        axis, dims = _axis(op), dims_of(op.result)
        match inner := op.operand.owner:
            case TransposeOp():
                rank = len(dims)
                axis = {rank - 1: rank - 2, rank - 2: rank - 1}.get(axis, axis)
                new = [moved := _again(op, inner.operand, axis), TransposeOp(moved)]
            case PermuteOp():
                order = inner.order.get_values()
                new = [moved := _again(op, inner.operand, order[axis]), PermuteOp(moved, order)]
            case ExpandOp() if axis not in (inserted := inner.axes.get_values()):
                within = axis - sum(i < axis for i in inserted)
                new = [moved := _again(op, inner.operand, within), ExpandOp(moved, inserted)]
            case ExpandOp() if (new := _expanded(op, inner)) is not None:
                pass
            case SqueezeOp():
                kept = [i for i in range(len(dims_of(inner.operand))) if i not in inner.axes.get_values()]
                moved = _again(op, inner.operand, kept[axis])
                new = [moved, SqueezeOp(moved, inner.axes.get_values())]
            case GatherOp() if not isinstance(op, PlaceOp):
                count = len(dims_of(inner.rows))
                x, rows = inner.operand, inner.rows
                moved = _again(op, rows, axis) if axis < count else _again(op, x, axis - count + 1)
                new = [moved, GatherOp(x, moved) if axis < count else GatherOp(moved, rows)]
            case BroadcastOp():
                b = Emit()
                value = _moved(b, op, inner.operand, axis - (len(dims) - len(dims_of(inner.operand))))
                new = [*b.ops, BroadcastOp(value, dims)]
            case _:
                return
        rewriter.replace(op, new)


def _expanded(op: IndexMapOp, expand: ExpandOp) -> list[Operation] | None:
    """`place((x + v)[:, None])` -> `place(x[:, None] + v[None])`, which then sinks; None for other values.

    So it is for repeated elements, such as a constant.
    """
    inner = expand.operand.owner
    if not isinstance(inner, e.ElementwiseOp | BroadcastOp) or not _is_free(expand.operand):
        return None
    if isinstance(inner, e.ElementwiseOp) and _is_copy(inner):
        return None
    if not dims_of(expand.operand):
        return None
    b, inserted = Emit(), expand.axes.get_values()
    kept = [i for i in range(len(dims_of(expand.result))) if i not in inserted]

    def inserted_into(value: SSAValue) -> SSAValue:
        if not (rank := len(dims_of(value))):
            return value
        # The operands of as many axes as the result give it the axes that come before all others.
        first = kept[-rank] if rank < len(kept) else 0
        axes = [i - first for i in inserted if i >= first]
        return b(ExpandOp(value, axes)) if axes else value

    operands, dims = [inserted_into(v) for v in inner.operands], dims_of(expand.result)
    if isinstance(inner, BroadcastOp):
        new = BroadcastOp(operands[0], dims)
    else:
        type = TensorType.of(dims, Shaped.of(inner.result.type).element_type)
        new = inner.__class__.create(
            operands=operands, result_types=[type], properties=dict(inner.properties)
        )
    return [*b.ops, new, _again(op, new.results[0], _axis(op))]


class Combined(RewritePattern):
    """Two index maps along one axis -> one, where their numbers are known; others are sorted by axis."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, IndexMapOp) or not isinstance(inner := op.operand.owner, IndexMapOp):
            return
        if len(op.moves) != 1 or len(inner.moves) != 1:
            return
        axis = _axis(op)
        if axis != _axis(inner):
            if axis > _axis(inner):
                # Sorted by axis, so that all maps along one axis meet.
                moved = _again(op, inner.operand, axis)
                rewriter.replace(op, [moved, _again(inner, moved.result, _axis(inner))])
            return
        extents = [dims_of(v)[axis] for v in (inner.operand, inner.result, op.result)]
        by, first = _numbers(op), _numbers(inner)
        if isinstance(op, s.FlipOp) and isinstance(inner, s.FlipOp):
            rewriter.replace(op, [], [inner.operand])
            return
        if by is None or first is None:
            if inner.moves[0].bounds is not None:
                _stored(op, rewriter)
            return
        count, middle, outer = (int(extent) for extent in extents)
        b = Emit()
        match op, inner:
            case s.SliceOp(), s.SliceOp():
                step, inner_step = op.range[2], inner.range[2]
                begin = first + by * inner_step
                end = begin + (outer - 1) * step * inner_step + 1
                value = b(s.SliceOp(inner.operand, axis, begin, end, step * inner_step))
            case s.SliceOp(), s.FlipOp():
                step = op.range[2]
                last = by + (outer - 1) * step
                value = b(s.SliceOp(inner.operand, axis, count - 1 - last, count - by, step))
                value = b(s.FlipOp(value, (axis,)))
            case s.SliceOp(), PlaceOp():
                value = _slice_of_placed(b, op, inner, by, first)
            case s.FlipOp(), PlaceOp():
                flipped = b(s.FlipOp(inner.operand, (axis,)))
                value = b(PlaceOp(flipped, axis, middle - first - count, middle))
            case PlaceOp(), PlaceOp():
                value = b(PlaceOp(inner.operand, axis, by + first, outer))
            case _:
                return  # the others are read as they are
        rewriter.replace(op, b.ops, [value])


def _slice_of_placed(b: Emit, op: s.SliceOp, inner: PlaceOp, start: int, low: int) -> SSAValue:
    axis, step = _axis(op), op.range[2]
    count, outer = (int(dims_of(v)[axis]) for v in (inner.operand, op.result))
    first, end = (_clipped(-(-(edge - start) // step), outer) for edge in (low, low + count))
    if first >= end:
        zero = b.number(0.0)
        return converted(b, b(BroadcastOp(zero, dims_of(op.result))), op.result)
    begin = start + first * step - low
    part = b(s.SliceOp(inner.operand, axis, begin, begin + (end - 1 - first) * step + 1, step))
    return b(PlaceOp(part, axis, first, outer))


def _clipped(index: int, extent: int) -> int:
    return max(0, min(index, extent))


class OfGenerated(RewritePattern):
    """`slice(iota(8))` -> `iota(...) * step + start`, and so for flips, placed values and `inside`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, IndexMapOp) or len(op.moves) != 1:
            return
        axis, dims, b = _axis(op), dims_of(op.result), Emit()
        source = op.operand.owner
        extent = dims_of(op.operand)[axis]
        match source:
            case s.IotaOp() if source.axis.value.data != axis:
                value = b(s.IotaOp(dims, source.axis.value.data))
            case s.IotaOp():
                numbers = b(s.IotaOp(dims, axis))
                match op:
                    case s.SliceOp() if isinstance(first := op.range[0], int):
                        scaled = b(e.MulOp(numbers, b.number(op.range[2])))
                        value = b(e.AddOp(scaled, b.number(first)))
                    case s.FlipOp() if isinstance(extent, int):
                        value = b(e.SubOp(b.number(extent - 1), numbers))
                    case PlaceOp() if isinstance(low := op.low.data, int):
                        value = b(e.SubOp(numbers, b.number(low)))
                    case _:
                        return
            case InsideOp() if source.axis.value.data != axis:
                value = b(BroadcastOp(source.result, dims))
            case InsideOp() if (moved := _numbers(op)) is not None and _can_move(op, source):
                low, size = (int(number) for number in source.range)
                first, end = _inside_of(op, moved, low, low + size)
                value = b(InsideOp(len(dims), axis, dims[axis], first, end - first))
            case _:
                return
        rewriter.replace(op, b.ops, [value])


class InsideOfView(RewritePattern):
    """`inside(axis 0).T` -> `inside(axis 1)`, and so for other views, since no kernel stores bools."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ExpandOp | PermuteOp | TransposeOp | SqueezeOp):
            return
        if not isinstance(inside := op.operand.owner, InsideOp):
            return
        along, dims = inside.axis.value.data, dims_of(op.result)
        match op:
            case ExpandOp():
                axis = [i for i in range(len(dims)) if i not in op.axes.get_values()][along]
            case SqueezeOp():
                if along in (dropped := op.axes.get_values()):
                    return
                axis = along - sum(i < along for i in dropped)
            case PermuteOp():
                axis = op.order.get_values().index(along)
            case TransposeOp():
                axis = {len(dims) - 1: len(dims) - 2, len(dims) - 2: len(dims) - 1}.get(along, along)
        rewriter.replace(op, [InsideOp(len(dims), axis, dims[axis], *inside.range)])


def _inside_of(op: IndexMapOp, moved: int, low: int, end: int) -> tuple[int, int]:
    """Return the first index whose element lies from `low` to `end`, and the one behind the last."""
    extent, outer = (int(dims_of(v)[_axis(op)]) for v in (op.operand, op.result))
    match op:
        case s.SliceOp():
            ends = [-(-(edge - moved) // op.range[2]) for edge in (low, end)]
        case s.FlipOp():
            ends = [extent - end, extent - low]
        case _:
            ends = [edge + moved for edge in (low, end)]
    first, last = (_clipped(edge, outer) for edge in ends)
    return first, max(first, last)


@dataclass(frozen=True)
class ThroughProduct(RewritePattern):
    """`(x @ w)[:, a:b]` -> `x @ w[:, a:b]`, where a product is only used by a few parts of its columns.

    That is for parts that meet: each then has a kernel that computes what follows it, and two of them are one
    kernel. Others are stored by the kernel of the whole product, where the target has such. The parts of w
    are such as kernels read in place: rows of its transpose, or columns from multiples of 16 bytes on.
    """

    target: str

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, s.SliceOp) or not isinstance(product := op.operand.owner, MatmulOp):
            return
        if is_stored_by_ranges(op.operand, self.target):
            return
        if not product.has_plain_operands or not _is_divided(product):
            return
        right = product.rhs
        part = s.SliceOp(right, len(dims_of(right)) - 1, *op.range)
        rewriter.replace(op, [part, MatmulOp(product.lhs, part, product.compute, product.acc)])


def _is_divided(product: MatmulOp) -> bool:
    """Whether a product is used by at most a few parts of its columns, which do not overlap."""
    right = product.rhs.type
    parts = ranges_of(product.result)
    if parts is None or not isinstance(right, TensorType) or right.is_sparse:
        return False
    if right.unit_axis != right.rank - 1:
        return True
    granule = 128 // math.gcd(128, dtype_bits(right.element_type))
    numbers = (n for part in parts for n in (*part.range[:2], dims_of(product.result)[-1]))
    return all(isinstance(n, int) and n % granule == 0 for n in numbers)


class MovedPicks(RewritePattern):
    """Picked elements are stored before they move, but for slices and flips of gathered rows."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, IndexMapOp) or not isinstance(inner := op.operand.owner, PickOp):
            return
        if isinstance(op, PlaceOp) or not isinstance(inner, GatherOp):
            _stored(op, rewriter)


def _stored(op: IndexMapOp, rewriter: PatternRewriter) -> None:
    """Let an index map read a copy of its operand."""
    copy = e.RetypeOp(op.operand, Shaped.of(op.operand.type).element_type)
    rewriter.replace(op, [copy, op.clone({op.operand: copy.result})])


def index_maps(target: str) -> tuple[RewritePattern, ...]:
    """Return the patterns for operations that move elements, in the order in which they are tried."""
    return (
        *CHOICES,
        *(OneAxis(), WholeSlice(), ThroughPointwise(target), ThroughView(), Combined(), OfGenerated()),
        *(InsideOfView(), KnownChoice(), ThroughProduct(target), MovedPicks()),
    )
