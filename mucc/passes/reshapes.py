"""Reshapes of moved elements that are views, so that kernels read the elements where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import AttentionOp, ScoredAttentionOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import FlipOp, ReshapeOp, SliceOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp, inverse
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType
from mucc.dialects.rewriting import Emit
from mucc.library.extents import add, divide, divisible, multiply
from mucc.passes.column_ranges import is_stored_by_ranges
from mucc.passes.values import dims_of


@dataclass(frozen=True)
class Reshape(RewritePattern):
    """`reshape(x)` -> `regroup(x)` where x lies row-major, or views of that where x is a view.

    ```
    %s = mu.slice %x axis 1 bounds [256, 512]         %g = mu.regroup %x : [M, 768] -> [M, 12, 64]
    %y = mu.reshape %s : [M, 256] -> [M, 4, 64]   ->  %y = mu.slice %g axis 1 bounds [4, 8]
    ```

    Where neither is possible the reshape is of a copy of x.
    """

    target: str

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReshapeOp):
            return
        value, dims = op.operand, dims_of(op.result)
        if dims_of(value) == dims and isinstance(value.type, TensorType):
            rewriter.replace(op, [], [value])
            return
        b = Emit()
        if not dims_of(value):
            result = b(ExpandOp(value, range(len(dims))))
        elif (result := _view(b, value, dims, self.target)) is None or result.type != op.result.type:
            b.discard()
            b = Emit()
            copy = b(e.RetypeOp(_unmerged(b, value), Shaped.of(value.type).element_type))
            result = b(RegroupOp(copy, dims))
        rewriter.replace(op, b.ops, [result])


def _in_order(value: SSAValue) -> bool:
    """Whether a value is in row-major order in memory, or will be when it is stored."""
    match value.owner:
        case ExpandOp() | SqueezeOp() | RegroupOp() as view:
            return _in_order(view.operand)
        case e.ElementwiseOp() | ReduceOp() | AttentionOp() | ScoredAttentionOp():
            return True
        case Operation() as op if op.name != "mu.matmul":
            return False
        case _:
            return isinstance(value.type, TensorType) and value.type.layout.is_row_major


def _view(b: Emit, value: SSAValue, dims: Dims, target: str) -> SSAValue | None:
    """Append views that give a value other extents; None where only a copy of it has them."""
    while isinstance(regroup := value.owner, RegroupOp):
        value = regroup.operand
    if dims_of(value) == dims:
        return value
    if _in_order(value):
        return b(RegroupOp(value, dims))
    match view := value.owner:
        case ExpandOp() | SqueezeOp():
            return _view(b, view.operand, dims, target)
        case SliceOp() | FlipOp() if len(view.moves) == 1 and not is_stored_by_ranges(view.operand, target):
            return _of_index_map(b, view, dims, target)
        case PermuteOp():
            return _of_permuted(b, view.operand, view.order.get_values(), dims, target)
        case TransposeOp():
            rank = len(dims_of(value))
            return _of_permuted(b, view.operand, (*range(rank - 2), rank - 1, rank - 2), dims, target)
        case _ if _long(dims_of(value)) == _long(dims):
            return _with_ones(b, value, dims)
        case _:
            return None


def _of_index_map(b: Emit, view: SliceOp | FlipOp, dims: Dims, target: str) -> SSAValue | None:
    """`reshape(slice(x))` -> `slice(reshape(x))`, where no axis in front of the slice's is merged with it.

    Let the slice's axis, of extent `n` out of `N`, begin at a position of `dims` as well (`groups`), and the
    run of axes that begins there have `n * inner` elements, `dims[place] * rest` in the new extents. For each
    index in front a slice with a step of 1 takes from `N * inner` elements those from `start * inner` on. If
    both numbers are multiples of `rest`, that is what a slice from `start * inner / rest` on takes along the
    first axis of extents `(N * inner / rest, ...)`. Where `inner == rest` the axis and its indices stay as
    they are, so that steps and flips do, too.
    """
    axis, whole = view.moves[0].axis, dims_of(view.operand)
    old = dims_of(view.result)
    starts, new_starts = _starts(old), _starts(dims)
    if starts[axis] not in new_starts:
        return None
    if old[axis] == 1:
        place = new_starts.index(starts[axis])
        moved = _view(b, view.operand, (*dims[:place], whole[axis], *dims[place:]), target)
        return None if moved is None else b(SqueezeOp(b(_along(view, moved, place)), [place]))
    place = len(dims) - new_starts[::-1].index(starts[axis])
    last = next(i for i in range(axis + 1, len(starts)) if starts[i] in new_starts)
    inner, rest = multiply(old[axis + 1 : last]), multiply(dims[place + 1 : new_starts.index(starts[last])])
    extent, start = whole[axis], None
    if inner != rest:
        if not isinstance(view, SliceOp) or view.range[2] != 1:
            return None
        scaled, start = (_scaled(number, inner, rest) for number in (extent, view.range[0]))
        if scaled is None or start is None:
            return None
        extent = scaled
    moved = _view(b, view.operand, (*dims[:place], extent, *dims[place + 1 :]), target)
    if moved is None:
        return None
    if start is None:
        return b(_along(view, moved, place))
    return b(SliceOp(moved, place, start, add(start, dims[place])))


def _along(view: SliceOp | FlipOp, value: SSAValue, axis: int) -> SliceOp | FlipOp:
    """Return the same slice or flip of another value, along an axis of that."""
    return SliceOp(value, axis, *view.range) if isinstance(view, SliceOp) else FlipOp(value, (axis,))


def _scaled(number: Dim, inner: Dim, rest: Dim) -> Dim | None:
    """Return `number * inner / rest`; None where that is no whole number for all run-time dims."""
    product = multiply((number, inner))
    if rest == 1:
        return product
    return divide(product, rest) if isinstance(rest, int) and divisible(product, rest) is None else None


def _of_permuted(b: Emit, value: SSAValue, order: Sequence[int], dims: Dims, target: str) -> SSAValue | None:
    """`reshape(permute(x))` -> `permute(reshape(x))`, where axes that are merged are neighbours in x.

    The axes of each run (`groups`) keep their order, so that the reshape of the run is one of x. Axes of
    extent 1 are left out: they have no place among others.
    """
    old = dims_of(value)
    long, new = [axis for axis, extent in enumerate(old) if extent != 1], _long(dims)
    turned = [axis for axis in order if old[axis] != 1]
    runs = groups([old[axis] for axis in turned], new)
    firsts = [long.index(turned[run.first]) if run.first < run.last else 0 for run in runs]
    for run, first in zip(runs, firsts, strict=True):
        if turned[run.first : run.last] != long[first : first + run.last - run.first]:
            return None
    by_place = sorted(range(len(runs)), key=firsts.__getitem__)
    places = [place for i in by_place for place in range(runs[i].new_first, runs[i].new_last)]
    if (moved := _view(b, value, tuple(new[place] for place in places), target)) is None:
        return None
    if places != sorted(places):
        moved = b(PermuteOp(moved, inverse(places)))
    return _with_ones(b, moved, dims)


def _unmerged(b: Emit, value: SSAValue) -> SSAValue:
    """`permute(regroup(x))` -> `permute(x)`, where the regroup merges axes that the next reshape merges.

    Some kernels store what they compute with axes in another order: x, but no view that merges axes of it.
    """
    view = value.owner
    if not isinstance(view, PermuteOp) or not isinstance(regroup := view.operand.owner, RegroupOp):
        return value
    merged, dims = dims_of(regroup.result), _long(dims_of(regroup.operand))
    runs = groups(dims, _long(merged))
    if any(run.new_last - run.new_first != 1 for run in runs):
        return value
    long = [axis for axis, extent in enumerate(merged) if extent != 1]
    order = [runs[long.index(axis)] for axis in view.order.get_values() if axis in long]
    places = [place for run in order for place in range(run.first, run.last)]
    return b(PermuteOp(_with_ones(b, regroup.operand, dims), places))


def _long(dims: Dims) -> Dims:
    return tuple(extent for extent in dims if extent != 1)


def _with_ones(b: Emit, value: SSAValue, dims: Dims) -> SSAValue:
    """Append a view of a value with axes of extent 1 where `dims` has them."""
    if dims_of(value) == dims:
        return value
    if ones := [axis for axis, extent in enumerate(dims_of(value)) if extent == 1]:
        value = b(SqueezeOp(value, ones))
    if ones := [axis for axis, extent in enumerate(dims) if extent == 1]:
        value = b(ExpandOp(value, ones))
    return value


def _starts(dims: Dims) -> list[Dim]:
    """Return products of leading extents, `[1, M, M*N]` of `[M, N]`: the elements in front of each axis."""
    return list(accumulate(dims, lambda a, b: multiply((a, b)), initial=1))


class Group(NamedTuple):
    """Axes `first` to `last` of a tensor that a reshape makes axes `new_first` to `new_last`."""

    first: int
    last: int
    new_first: int
    new_last: int


def groups(dims: Sequence[Dim], new: Sequence[Dim]) -> list[Group]:
    """Divide the axes of a reshape, none of extent 1, into the shortest runs with as many elements.

    A reshape keeps the number of each element in row-major order. Where the axes in front of a position have
    as many elements as those in front of another one in `new`, and hence those behind as well, say `m`, that
    number is `i * m + j` on both sides with `j < m`: equal numbers have equal `i` and equal `j`, and the
    reshape is one of the axes in front beside one of those behind. So it is one of each run. Extents are at
    least 1, and those with equal texts are equal whatever the dims are.
    """
    starts = {start: place for place, start in enumerate(_starts(tuple(new)))}
    cuts = [(i, starts[start]) for i, start in enumerate(_starts(tuple(dims))[:-1]) if start in starts]
    return [Group(a, c, b, d) for (a, b), (c, d) in pairwise((*cuts, (len(dims), len(new))))]
