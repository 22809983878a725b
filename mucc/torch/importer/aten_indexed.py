"""Lower ATen's indexing operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.indexed import GatherOp, TakeAlongOp
from mucc.dialects.mu.ops.normalisation import LogSoftmaxOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.ops.views import ExpandOp
from mucc.torch.importer.aten_normalisation import MEAN, SUM, loss
from mucc.torch.importer.aten_reduction import reduced
from mucc.torch.importer.aten_views import permuted, reshaped, sliced
from mucc.torch.importer.lowering import (
    EXACT,
    Builder,
    Built,
    Unsupported,
    aten,
    axis_of,
    dims_of,
    dtype_of,
    fixed,
    lowers,
)


@lowers(aten.gather.default)
def gather(b: Builder, x: Any, axis: int, index: Any, **options: Any) -> Built:
    axis = axis_of(axis, len(dims_of(x)))
    value = b.value(x)
    for other, extent in enumerate(dims_of(index)):
        if other != axis:  # an index may be shorter than what it reads
            value = sliced(b, value, other, 0, extent)
    return b.add(TakeAlongOp(value, index, axis))


@lowers(aten.embedding.default)
def embedding(b: Builder, table: Any, rows: Any, *_: Any) -> Built:
    return b.add(GatherOp(table, rows))


@lowers(aten.index_select.default)
def index_select(b: Builder, x: Any, axis: int, rows: Any) -> Built:
    return _along(b, b.value(x), axis_of(axis, len(dims_of(x))), rows)


def _along(b: Builder, value: SSAValue, axis: int, rows: SSAValue) -> SSAValue:
    """Return what an index of any rank picks of an axis; its axes take the place of that one."""
    if axis == 0:
        return b.add(GatherOp(value, rows))
    rank, count = len(dims_of(value)), len(dims_of(rows))
    picked = b.add(GatherOp(permuted(b, value, [axis, *(n for n in range(rank) if n != axis)]), rows))
    return permuted(
        b, picked, [*range(count, count + axis), *range(count), *range(count + axis, count + rank - 1)]
    )


@lowers(aten.index.Tensor)
def index(b: Builder, x: Any, indices: Sequence[Any]) -> Built:
    given = [n for n, i in enumerate(indices) if i is not None]
    if len(given) != 1:
        raise Unsupported("indexing of several axes at once")
    axis = given[0]
    first = indices[axis]
    if dtype_of(first) == "bool":
        raise Unsupported("indexing by bools")
    count = fixed(dims_of(x)[axis])
    if count > EXACT:
        raise Unsupported("indices beyond 2²⁴")
    # Negative ones count from the end. What is valid is exact in f32.
    negative = b.add(e.CmpOp("lt", first, b.number(0)))
    place = b.cast(b.call(e.SelectOp, negative, b.call(e.AddOp, first, count), first), "s32")
    return _along(b, b.value(x), axis, place)


def _ordered(b: Builder, x: Any, axis: int, count: int | None = None, descending: bool = False) -> Built:
    """Return sorted values and their positions. Equal elements keep their order, as in a stable sort."""
    if not (dims := dims_of(x)):
        raise Unsupported("sorting a single number")
    axis = axis_of(axis, len(dims))
    fixed(dims[axis])  # long rows would be refused at the call
    made = (
        SortOp(x, axis, positions=positions, descending=descending, count=count)
        for positions in (False, True)
    )
    values, positions = (b.add(op) for op in made)
    return values, positions


@lowers(aten.sort.default)
def sort(b: Builder, x: Any, axis: int = -1, descending: bool = False) -> Built:
    return _ordered(b, x, axis, descending=descending)


@lowers(aten.sort.stable)
def stable_sort(
    b: Builder, x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Built:
    return _ordered(b, x, dim, descending=descending)


@lowers(aten.topk.default)
def topk(
    b: Builder, x: Any, count: int, axis: int = -1, largest: bool = True, in_order: bool = True
) -> Built:
    if largest:
        return _ordered(b, x, axis, count, descending=True)
    ordered = _ordered(b, x, axis)
    assert isinstance(ordered, tuple)
    return tuple(
        None if v is None else sliced(b, v, axis_of(axis, len(dims_of(v))), 0, count) for v in ordered
    )


@lowers(aten.cross_entropy_loss.default)
def cross_entropy(
    b: Builder,
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore: int = -100,
    smoothing: float = 0.0,
) -> Built:
    if weight is not None or dtype_of(target) not in ("s32", "s8", "u8"):
        raise Unsupported("cross entropy with weights or probabilities")
    axis = 1 if len(dims_of(x)) > 1 else 0
    logs = b.add(LogSoftmaxOp(x, axis))
    counts = b.add(e.CmpOp("ne", target, b.number(ignore)))
    # Any class will do where a target does not count. s32 below the number of classes is exact in f32.
    place = b.cast(b.call(e.SelectOp, counts, target, 0), "s32")
    chosen = b.add(TakeAlongOp(logs, b.add(ExpandOp(place, [axis])), axis))
    if smoothing:  # a share of the mean over all classes
        even = b.keep(b.add(ReduceOp("mean", logs, [axis])), [axis])
        chosen = b.call(e.AddOp, b.call(e.MulOp, chosen, 1 - smoothing), b.call(e.MulOp, even, smoothing))
    if reduction not in (MEAN, SUM):
        return b.call(e.SelectOp, counts, b.call(e.NegOp, reshaped(b, chosen, dims_of(target))), 0)
    losses = b.call(e.SelectOp, b.add(ExpandOp(counts, [axis])), b.call(e.NegOp, chosen), 0)
    if reduction == SUM:
        return loss(b, losses, SUM)
    return b.call(e.DivOp, loss(b, losses, SUM), reduced(b, "sum", counts))
