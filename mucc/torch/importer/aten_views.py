"""Lower ATen's views, concatenations and constant tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import (
    ConcatOp,
    FlipOp,
    FullOp,
    IotaOp,
    PadOp,
    PermuteOp,
    ReshapeOp,
    RollOp,
    SliceOp,
    TriangleOp,
)
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import DTYPES, Dim
from mucc.library.extents import add, multiply, subtract
from mucc.torch.importer.lowering import (
    EXACT,
    MU_DTYPES,
    Builder,
    Built,
    Unsupported,
    aten,
    axis_of,
    dims_of,
    dtype_of,
    fixed,
    lowers,
    prims,
)

BEYOND = 2**63 - 1
"""The end that torch gives a slice without one."""


@lowers(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
)
def reshape(b: Builder, x: Any, *args: Any, **options: Any) -> Built:
    return reshaped(b, x, b.result.dims)


def reshaped(b: Builder, x: Any, dims: Sequence[Any]) -> SSAValue:
    """Reshape a value; nothing if it has the extents already. One element is its own sum."""
    value = b.value(x)
    if dims_of(value) == tuple(dims):
        return value
    return b.add(ReshapeOp(value, tuple(dims)) if dims else ReduceOp("sum", value))


@lowers(aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
def squeeze(b: Builder, x: Any, axes: int | Sequence[int] | None = None) -> Built:
    dims = dims_of(x)
    of = range(len(dims)) if axes is None else (axes,) if isinstance(axes, int) else axes
    return without(b, x, [axis_of(a, len(dims)) for a in of if dims and dims[a] == 1])


def without(b: Builder, x: Any, axes: Sequence[int]) -> SSAValue:
    """Drop axes of extent 1."""
    value = b.value(x)
    return b.add(SqueezeOp(value, axes)) if axes else value


@lowers(aten.unsqueeze.default)
def unsqueeze(b: Builder, x: Any, axis: int) -> Built:
    return b.add(ExpandOp(x, [axis_of(axis, len(dims_of(x)) + 1)]))


@lowers(aten.expand.default, aten.broadcast_to.default)
def expand(b: Builder, x: Any, *args: Any, **options: Any) -> Built:
    return b.value(x) if dims_of(x) == b.result.dims else b.add(BroadcastOp(x, b.result.dims))


@lowers(aten.repeat.default)
def repeat(b: Builder, x: Any, times: Sequence[int]) -> Built:
    """Repeat the whole tensor along its axes, and along new ones in front: torch's tile."""
    value = b.value(x)
    if (missing := len(times) - len(dims_of(value))) > 0:
        value = b.add(ExpandOp(value, range(missing)))
    dims = b.result.dims
    for axis, count in enumerate(times):
        before = dims_of(value)
        if before[axis] == 1:
            continue
        if count != 1:
            repeated = b.add(ExpandOp(value, [axis]))
            wide = b.add(BroadcastOp(repeated, (*before[:axis], count, *before[axis:])))
            value = b.add(ReshapeOp(wide, (*before[:axis], dims[axis], *before[axis + 1 :])))
    return value if dims_of(value) == dims else b.add(BroadcastOp(value, dims))


def stretched(b: Builder, value: SSAValue, axis: int, times: int) -> SSAValue:
    """Repeat each element along an axis `times` times in a row."""
    dims = dims_of(value)
    if times == 1:
        return value
    column = b.add(ExpandOp(value, [axis + 1]))
    wide = b.add(BroadcastOp(column, (*dims[: axis + 1], times, *dims[axis + 1 :])))
    return b.add(ReshapeOp(wide, (*dims[:axis], multiply((dims[axis], times)), *dims[axis + 1 :])))


@lowers(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
def upsample_nearest(b: Builder, x: Any, size: Sequence[int] | None, scales: Sequence[float] | None) -> Built:
    """Enlarge by whole factors, for which each element is repeated."""
    value = b.value(x)
    for axis in range(2, b.result.rank):
        times, rest = divmod(b.result.extent(axis), fixed(dims_of(value)[axis]))
        if rest or not times or (scales and scales[axis - 2] != times):
            raise Unsupported("nearest neighbours by a factor that is no integer")
        value = stretched(b, value, axis, times)
    return value


@lowers(aten.unfold.default)
def unfold(b: Builder, x: Any, axis: int, size: int, step: int) -> Built:
    """Take windows along an axis, whose elements become the last one."""
    value = b.value(x)
    dims = dims_of(value)
    axis = axis_of(axis, len(dims))
    count = b.result.extent(axis)
    if step == size:
        value = sliced(b, value, axis, 0, count * size)
        value = b.add(ReshapeOp(value, (*dims[:axis], count, size, *dims[axis + 1 :])))
        rank = len(dims) + 1
        return permuted(b, value, [n for n in range(rank) if n != axis + 1] + [axis + 1])
    if size > MOST_WINDOWED:
        raise Unsupported(f"overlapping windows of more than {MOST_WINDOWED} elements")
    ends = (count - 1) * step + 1
    parts = [b.add(ExpandOp(sliced(b, value, axis, n, n + ends, step), [len(dims)])) for n in range(size)]
    return b.add(ConcatOp(parts, len(dims))) if size > 1 else parts[0]


@lowers(aten.permute.default)
def permute(b: Builder, x: Any, order: Sequence[int]) -> Built:
    return permuted(b, x, order)


def permuted(b: Builder, x: Any, order: Sequence[int]) -> SSAValue:
    """Return the axes in another order; nothing where it is theirs."""
    rank = len(order)
    positions = [axis_of(a, rank) for a in order]
    if positions == list(range(rank)):
        return b.value(x)
    if rank > 1 and positions == [*range(rank - 2), rank - 1, rank - 2]:
        return b.add(TransposeOp(x))
    return b.add(PermuteOp(x, positions))


@lowers(aten.transpose.int)
def transpose(b: Builder, x: Any, first: int, second: int) -> Built:
    order = list(range(len(dims_of(x))))
    order[first], order[second] = order[second], order[first]
    return permute(b, x, order)


@lowers(aten.t.default)
def t(b: Builder, x: Any) -> Built:
    return b.value(x) if len(dims_of(x)) < 2 else b.add(TransposeOp(x))


MOST_WINDOWED = 16
"""The largest overlapping windows, which are concatenations of as many slices."""


def sliced(b: Builder, x: Any, axis: int, start: Dim, stop: Dim, step: int = 1) -> SSAValue:
    """Part of an axis; nothing where it is all of it."""
    value = b.value(x)
    if step == 1 and isinstance(start, int) and isinstance(stop, int):
        value, start, stop = _within_part(value, axis, start, stop)
    whole = dims_of(value)[axis]
    return value if (start, stop, step) == (0, whole, 1) else b.add(SliceOp(value, axis, start, stop, step))


def _within_part(value: SSAValue, axis: int, start: int, stop: int) -> tuple[SSAValue, int, int]:
    """Return the part of a concatenation that a slice lies in, with the slice's bounds there."""
    op = value.owner
    if not isinstance(op, ConcatOp) or op.axis.value.data != axis:
        return value, start, stop
    before = 0
    for part in op.operands:
        extent = dims_of(part)[axis]
        if not isinstance(extent, int):
            break
        if before <= start and stop <= before + extent:
            return _within_part(part, axis, start - before, stop - before)
        before += extent
    return value, start, stop


@lowers(aten.slice.Tensor)
def slice_(
    b: Builder, x: Any, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    dim = dims_of(x)[axis]
    if isinstance(dim, int) and not isinstance(start, str) and not isinstance(end, str):
        first, stop, _ = slice(start, end).indices(dim)
        return sliced(b, x, axis, first, stop, step)
    return sliced(b, x, axis, *_open_bounds(b, dim, axis, start or 0, end, step), step)


def _open_bounds(b: Builder, dim: Dim, axis: int, start: Dim, end: Dim | None, step: int) -> tuple[Dim, Dim]:
    """Return the bounds of a slice of an open extent. Raises Unsupported where torch may cut them off.

    torch has found how long the result is: where that is `end - start`, the bounds lie within the extent.
    """
    length = b.result.dims[axis]
    stop = dim if end is None or (isinstance(end, int) and end >= BEYOND) else end
    if isinstance(start, int) and start < 0:
        start = add(dim, start)
    if isinstance(stop, int) and stop < 0:
        stop = add(dim, stop)
    if step != 1 or subtract(stop, start) != length:
        raise Unsupported(f"part of the open extent {dim}")
    return start, stop


@lowers(aten.select.int)
def select(b: Builder, x: Any, axis: int, index: int) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    start = index if index >= 0 else add(dims_of(x)[axis], index)
    return without(b, sliced(b, x, axis, start, add(start, 1)), [axis])


@lowers(aten.slice_scatter.default)
def slice_scatter(
    b: Builder,
    x: Any,
    part: Any,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    whole = fixed(dims_of(x)[axis])
    first, stop, _ = slice(start, end).indices(whole)
    if step != 1:
        raise Unsupported("writing to every other element")
    before = [sliced(b, x, axis, 0, first)] if first else []
    behind = [sliced(b, x, axis, stop, whole)] if stop < whole else []
    return b.add(ConcatOp([*before, part, *behind], axis)) if before or behind else b.value(part)


@lowers(aten.select_scatter.default)
def select_scatter(b: Builder, x: Any, part: Any, axis: int, index: int) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    index %= fixed(dims_of(x)[axis])
    return slice_scatter(b, x, b.add(ExpandOp(part, [axis])), axis, index, index + 1)


def _parts(b: Builder, x: Any, sizes: Sequence[int], axis: int) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return tuple(sliced(b, x, axis, s, s + size) for s, size in zip(starts, sizes, strict=True))


@lowers(aten.split_with_sizes.default)
def split_with_sizes(b: Builder, x: Any, sizes: Sequence[int], axis: int = 0) -> Built:
    return _parts(b, x, sizes, axis)


@lowers(aten.split.Tensor, aten.chunk.default)
def split(b: Builder, x: Any, size: int, axis: int = 0) -> Built:
    return _parts(b, x, [fixed(m.dims[axis]) for m in b.results if m is not None], axis)


@lowers(aten.unbind.int)
def unbind(b: Builder, x: Any, axis: int = 0) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    return tuple(
        without(b, sliced(b, x, axis, n, n + 1), [axis]) for n, m in enumerate(b.results) if m is not None
    )


@lowers(aten.cat.default)
def cat(b: Builder, values: Sequence[Any], axis: int = 0) -> Built:
    parts = [b.value(v) for v in values]
    if b.result.is_float:
        parts = [b.cast(p, MU_DTYPES[b.result.dtype]) for p in parts]
    return b.add(ConcatOp(parts, axis))


@lowers(aten.stack.default)
def stack(b: Builder, values: Sequence[Any], axis: int = 0) -> Built:
    axis = axis_of(axis, b.result.rank)
    return b.add(ConcatOp([b.add(ExpandOp(v, [axis])) for v in values], axis))


@lowers(aten.constant_pad_nd.default)
def constant_pad(b: Builder, x: Any, pad: Sequence[int], value: float = 0) -> Built:
    return padded(b, x, pad, "constant", value)


@lowers(aten.pad.default)
def pad(b: Builder, x: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Built:
    return padded(b, x, pad, mode, value or 0)


def padded(b: Builder, x: Any, pad: Sequence[int], mode: str, value: float) -> SSAValue:
    """Pad as torch does: low and high of the last axis first; negative padding cuts off."""
    rank = len(dims_of(x))
    low, high = [0] * rank, [0] * rank
    for n in range(len(pad) // 2):
        low[rank - 1 - n], high[rank - 1 - n] = pad[2 * n], pad[2 * n + 1]
    result = b.value(x)
    for axis in range(rank):
        if low[axis] < 0 or high[axis] < 0:
            extent = fixed(dims_of(result)[axis])
            result = sliced(b, result, axis, max(-low[axis], 0), extent - max(-high[axis], 0))
    low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    return b.add(PadOp(result, low, high, mode, value)) if any((*low, *high)) else result


for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    for _rank in (1, 2, 3):

        def _pad(b: Builder, x: Any, pad: Sequence[int], mode: str = _mode) -> Built:
            return padded(b, x, pad, mode, 0)

        lowers(getattr(aten, f"{_name}_pad{_rank}d").default)(_pad)


@lowers(aten._pad_circular.default)
def circular_pad(b: Builder, x: Any, pad: Sequence[int]) -> Built:
    return padded(b, x, pad, "circular", 0)


@lowers(aten.flip.default)
def flip(b: Builder, x: Any, axes: Sequence[int]) -> Built:
    return b.add(FlipOp(x, sorted(axis_of(a, len(dims_of(x))) for a in axes)))


@lowers(aten.roll.default)
def roll(b: Builder, x: Any, shifts: Sequence[int], axes: Sequence[int] = ()) -> Built:
    value = b.value(x)
    if not axes:
        flat = reshaped(b, value, (multiply(dims_of(value)),))
        return reshaped(b, b.add(RollOp(flat, shifts[0], 0)), dims_of(value))
    for shift, axis in zip(shifts, axes, strict=True):
        value = b.add(RollOp(value, shift, axis_of(axis, len(dims_of(value)))))
    return value


def _triangle(b: Builder, kind: str, x: Any, diagonal: int) -> SSAValue:
    if dtype_of(b.value(x)) != "bool":
        return b.add(TriangleOp(kind, x, diagonal))
    kept = b.add(TriangleOp(kind, b.cast(x, "f32"), diagonal))
    return b.add(e.CmpOp("ne", kept, b.number(0)))


@lowers(aten.tril.default)
def tril(b: Builder, x: Any, diagonal: int = 0) -> Built:
    return _triangle(b, "lower", x, diagonal)


@lowers(aten.triu.default)
def triu(b: Builder, x: Any, diagonal: int = 0) -> Built:
    return _triangle(b, "upper", x, diagonal)


@lowers(
    aten.full.default,
    aten.full_like.default,
    aten.new_full.default,
    aten.scalar_tensor.default,
)
def full(b: Builder, *args: Any, **options: Any) -> Built:
    return filled(b, args[-1])


def filled(b: Builder, value: float) -> SSAValue:
    """Return a tensor of one number, with the shape and dtype of the node's value."""
    if b.result.dtype == "bool":
        number = b.number(bool(value))
        numbers = b.add(BroadcastOp(number, b.result.dims)) if b.result.dims else number
        return b.add(e.CmpOp("ne", numbers, b.number(0)))
    if not b.result.dims and b.result.is_float:
        return b.number(value)
    if not b.result.dims:
        raise Unsupported("one integer")
    b.number(value)
    return b.add(FullOp(b.result.dims, float(value), b.result.element_type))


@lowers(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def zeros(b: Builder, *args: Any, **options: Any) -> Built:
    return filled(b, 0.0)


@lowers(
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
def uninitialised(b: Builder, *args: Any, **options: Any) -> Built:
    """Return zeros: a tensor without values of its own, which something is written to, has any."""
    return filled(b, 0.0)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(b: Builder, *args: Any, **options: Any) -> Built:
    return filled(b, 1.0)


@lowers(aten.arange.start_step)
def arange(b: Builder, start: float, end: float, step: float = 1, **options: Any) -> Built:
    count = b.result.extent(0)
    if b.result.is_float:
        value = b.cast(b.add(IotaOp((count,), 0)), "f32")
        value = value if step == 1 else b.call(e.MulOp, value, step)
        return value if start == 0 else b.call(e.AddOp, value, start)
    if step != 1 or start != 0:
        if abs(start) + count * abs(step) > EXACT:
            raise Unsupported("integers beyond 2²⁴")
        value = b.call(e.AddOp, b.call(e.MulOp, b.add(IotaOp((count,), 0)), step), start)
        return b.add(e.CastOp(value, DTYPES["s32"]))
    return b.add(IotaOp((count,), 0))


@lowers(aten.arange.default)
def arange_to(b: Builder, end: float, **options: Any) -> Built:
    return arange(b, 0, end)


@lowers(prims.iota.default)
def iota(b: Builder, length: int, *, start: int, step: int, **options: Any) -> Built:
    return arange(b, start, start + step * length, step)
