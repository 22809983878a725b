"""Interpret operations that move elements, and constant tensors."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Operation

from mucc.dialects.mu.meanings.base import Machine, Meaning, along, taken
from mucc.dialects.mu.ops import shape as ops
from mucc.dialects.mu.ops.placed import InsideOp, PlaceOp
from mucc.dialects.mu.ops.views import PermuteOp
from mucc.dialects.mu.types import Dim, Shaped, TensorType, dtype_name
from mucc.library import extents


def _permute(machine: Machine, op: PermuteOp, x: Any) -> Any:
    return machine.arrays.permute(x, op.order.get_values())


def _slice(machine: Machine, op: ops.SliceOp, x: Any) -> Any:
    start, stop, step = op.range
    first, last = extents.value(start, machine.sizes), extents.value(stop, machine.sizes)
    axis = op.axis.value.data
    if not 0 <= first < last <= int(x.shape[axis]):
        raise ValueError(f"slice {first}:{last} does not fit an extent of {int(x.shape[axis])}")
    return x[(slice(None),) * axis + (slice(first, last, step),)]


def source(mode: ops.Padding, place: int, extent: int) -> int | None:
    """Map a position in a padded axis to the index of its source element; None for the padding constant."""
    match mode:
        case _ if 0 <= place < extent:
            return place
        case ops.Padding.REFLECT:
            return -place if place < 0 else 2 * (extent - 1) - place
        case ops.Padding.REPLICATE:
            return 0 if place < 0 else extent - 1
        case ops.Padding.CIRCULAR:
            return place % extent
        case ops.Padding.CONSTANT:
            return None


def _pad(machine: Machine, op: ops.PadOp, x: Any) -> Any:
    for axis, (low, high) in enumerate(zip(op.low.get_values(), op.high.get_values(), strict=True)):
        if not low and not high:
            continue
        extent = int(x.shape[axis])
        places = [source(op.mode.data, place, extent) for place in range(-low, extent + high)]
        wide = taken(x, axis, [p or 0 for p in places])
        if op.mode.data is ops.Padding.CONSTANT:
            inside = machine.arrays.float64([p is not None for p in places]) > 0
            inside = along(len(places), axis, len(x.shape), inside)
            wide = machine.arrays.xp.where(inside, wide, machine.arrays.full((), op.value.value.data))
        x = wide
    return x


def _place(machine: Machine, op: PlaceOp, x: Any) -> Any:
    """Zeros, or bools that are false, stand where an element has no value."""
    axis, low = op.axis.value.data, _extent(machine, op.low.data)
    extent, whole = int(x.shape[axis]), machine.shape(op.result.type)[axis]
    places = range(-low, whole - low)
    wide = taken(x, axis, [p if 0 <= p < extent else 0 for p in places])
    here = _within(machine, axis, len(x.shape), whole, low, extent)
    if Shaped.of(op.result.type).element_type == i1:
        return here & wide
    return machine.arrays.xp.where(here, wide, machine.arrays.full((), 0.0))


def _extent(machine: Machine, extent: Dim) -> int:
    if isinstance(extent, int):
        return extent
    (size,) = machine.shape(TensorType.of((extent,), f32))
    return size


def _within(machine: Machine, axis: int, rank: int, whole: int, low: int, count: int) -> Any:
    """Compute which of `whole` indices along an axis are from `low` on, `count` in all."""
    numbers = machine.arrays.float64(list(range(whole)))
    return along(whole, axis, rank, (numbers >= low) & (numbers < low + count))


def _inside(machine: Machine, op: InsideOp) -> Any:
    shape, axis = machine.shape(op.result.type), op.axis.value.data
    low, count = (_extent(machine, e) for e in op.range)
    return _within(machine, axis, len(shape), shape[axis], low, count)


def _triangle(machine: Machine, op: ops.TriangleOp, x: Any) -> Any:
    xp = machine.arrays.xp
    triangle = xp.tril if op.kind.data is ops.Triangle.LOWER else xp.triu
    return triangle(x, op.diagonal.value.data)


def _iota(machine: Machine, op: ops.IotaOp) -> Any:
    shape, axis = machine.shape(op.result.type), op.axis.value.data
    numbers = machine.arrays.float64(list(range(shape[axis])))
    return along(shape[axis], axis, len(shape), numbers) + machine.arrays.full(shape, 0.0)


def _full(machine: Machine, op: ops.FullOp) -> Any:
    value = machine.arrays.full(machine.shape(op.result.type), op.value.value.data)
    wanted = Shaped.of(op.result.type).element_type
    return value if wanted in (f32, i1) else machine.arrays.round_to(value, dtype_name(wanted))


MEANINGS: dict[type[Operation], Meaning] = {
    ops.ReshapeOp: lambda m, op, v: v[0].reshape(m.shape(op.result.type)),
    PermuteOp: lambda m, op, v: _permute(m, op, v[0]),
    ops.SliceOp: lambda m, op, v: _slice(m, op, v[0]),
    PlaceOp: lambda m, op, v: _place(m, op, v[0]),
    ops.ConcatOp: lambda m, op, v: m.arrays.xp.concatenate(v, op.axis.value.data),
    ops.PadOp: lambda m, op, v: _pad(m, op, v[0]),
    ops.FlipOp: lambda m, op, v: m.arrays.xp.flip(v[0], tuple(op.axes.get_values())),
    ops.RollOp: lambda m, op, v: m.arrays.xp.roll(v[0], op.shift.value.data, op.axis.value.data),
    ops.TriangleOp: lambda m, op, v: _triangle(m, op, v[0]),
    InsideOp: lambda m, op, v: _inside(m, op),
    ops.IotaOp: lambda m, op, v: _iota(m, op),
    ops.FullOp: lambda m, op, v: _full(m, op),
}
