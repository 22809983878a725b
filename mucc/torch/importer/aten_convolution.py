"""Lower ATen's convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr, MatmulOp
from mucc.dialects.mu.ops.conv import ConvOp, ConvTransposeOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Dims
from mucc.torch.importer.aten_views import reshaped
from mucc.torch.importer.lowering import (
    LOWERINGS,
    Builder,
    Built,
    Unsupported,
    aten,
    dims_of,
    dtype_of,
    fixed,
    lowers,
)

Sizes = Sequence[int] | int


def spread(value: Sizes, rank: int) -> list[int]:
    """One number per spatial axis."""
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * rank if len(numbers) == 1 else numbers


@lowers(aten.convolution.default)
def convolution(
    b: Builder,
    x: Any,
    w: Any,
    bias: Any,
    stride: Sizes,
    pad: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_pad: Sizes,
    groups: int,
) -> Built:
    rank = len(dims_of(w)) - 2
    alone = len(dims_of(x)) == rank + 1
    value = b.add(ExpandOp(x, [0])) if alone else b.value(x)
    options: dict[str, Any] = {
        "stride": spread(stride, rank),
        "pad": spread(pad, rank),
        "dilation": spread(dilation, rank),
        "groups": groups,
        "compute": ComputeAttr(Compute(b.conv_compute)) if dtype_of(value) == "f32" else None,
    }
    is_plain = not (transposed or any(spread(pad, rank)) or groups != 1 or alone)
    if is_plain and _are_patches(dims_of(value), dims_of(w), options["stride"], options["dilation"]):
        return _of_patches(b, value, b.value(w), bias, options["compute"])
    if transposed:
        result = b.add(ConvTransposeOp(value, w, output_pad=spread(output_pad, rank), **options))
    else:
        result = b.add(ConvOp(value, w, **options))
    if bias is not None:
        result = b.call(e.AddOp, result, b.column(bias, 1, rank + 2))
    return b.add(ReduceOp("sum", result, [0])) if alone else result


FEW = 8
"""Channels below which a convolution of patches is a product of matrices."""


def _are_patches(x: Dims, w: Dims, stride: Sequence[int], dilation: Sequence[int]) -> bool:
    """Whether windows of few channels lie side by side and leave nothing out, as those of embedded images."""
    window = w[2:]
    if (
        any(not isinstance(d, int) for d in (*x[1:], *w))
        or int(x[1]) >= FEW
        or math.prod(map(int, window)) < FEW
    ):
        return False
    whole = all(int(extent) % int(size) == 0 for extent, size in zip(x[2:], window, strict=True))
    return whole and tuple(stride) == window and all(d == 1 for d in dilation)


def _of_patches(b: Builder, x: SSAValue, w: SSAValue, bias: Any, compute: ComputeAttr | None) -> SSAValue:
    """`reshape(x, [N, C, P, p, Q, q])` with positions first, as a matrix, times that of the weights.

    A row has its elements by channel first; where x lies channels last, by position first, as they lie.
    """
    (batch, channels, *extents), (outputs, _, *window) = dims_of(x), dims_of(w)
    rank = len(window)
    places = [int(e) // int(s) for e, s in zip(extents, window, strict=True)]
    divided = [d for pair in zip(places, window, strict=True) for d in pair]
    if (last := _behind_channels_last(x)) is not None:
        lines = [*divided[:-1], int(divided[-1]) * int(channels)]
        parts = reshaped(b, last, [batch, *lines])
        order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)]
        turned = _behind_channels_last(w)
        w = b.add(PermuteOp(w, [0, *range(2, rank + 2), 1])) if turned is None else turned
    else:
        parts = reshaped(b, x, [batch, channels, *divided])
        order = [0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2)]
    depth = int(channels) * math.prod(map(int, window))
    rows = reshaped(b, b.add(PermuteOp(parts, order)), [batch, *places, depth])
    weight = b.add(TransposeOp(reshaped(b, w, [outputs, depth])))
    result = b.add(MatmulOp(rows, weight, compute))
    if bias is not None:
        result = b.call(e.AddOp, result, bias)
    return b.add(PermuteOp(result, [0, rank + 1, *range(1, rank + 1)]))


def _behind_channels_last(value: SSAValue) -> SSAValue | None:
    """Return the tensor with channels last that `[N, C, ...]` is a view of; None if it is no such view."""
    if not isinstance(view := value.owner, PermuteOp):
        return None
    rank = len(dims_of(value))
    return view.operand if tuple(view.order.get_values()) == (0, rank - 1, *range(1, rank - 1)) else None


def pooled(
    b: Builder,
    kind: str,
    x: Any,
    size: Sizes,
    stride: Sizes = (),
    pad: Sizes = 0,
    dilation: Sizes = 1,
    ceil: bool = False,
    count_pad: bool = True,
    rank: int = 2,
    divisor: int | None = None,
) -> SSAValue:
    """Pooling over the last `rank` axes; what comes without a batch or channels gets them for the time."""
    dims = dims_of(x)
    missing = rank + 2 - len(dims)
    value = b.add(ExpandOp(x, range(missing))) if missing > 0 else b.value(x)
    sizes = spread(size, rank)
    result = b.add(
        PoolOp(
            kind,
            value,
            sizes,
            spread(stride, rank) if stride else sizes,
            spread(pad, rank),
            spread(dilation, rank),
            ceil,
            count_pad,
            divisor,
        )
    )
    return reshaped(b, result, b.result.dims) if missing > 0 else result


def _max_pool(rank: int) -> Callable[..., Built]:
    def build(
        b: Builder,
        x: Any,
        size: Sizes,
        stride: Sizes = (),
        pad: Sizes = 0,
        dilation: Sizes = 1,
        ceil: bool = False,
    ) -> Built:
        return pooled(b, "max", x, size, stride, pad, dilation, ceil, rank=rank)

    return build


def _avg_pool(rank: int) -> Callable[..., Built]:
    def build(
        b: Builder,
        x: Any,
        size: Sizes,
        stride: Sizes = (),
        pad: Sizes = 0,
        ceil: bool = False,
        count_pad: bool = True,
        divisor: int | None = None,
    ) -> Built:
        if divisor is not None and divisor < 1:
            raise Unsupported("a pool with a divisor below 1")
        return pooled(b, "avg", x, size, stride, pad, 1, ceil, count_pad, rank, divisor)

    return build


def _with_indices(rank: int) -> Callable[..., Built]:
    pool = _max_pool(rank)

    def build(b: Builder, *args: Any) -> Built:
        value = pool(b, *args)
        assert not isinstance(value, tuple)
        return value, None

    return build


def _adaptive(rank: int) -> Callable[..., Built]:
    def build(b: Builder, x: Any, size: Sizes) -> Built:
        wanted = spread(size, rank)
        extents = [fixed(d) for d in dims_of(x)[-rank:]]
        if all(n == 1 for n in wanted):
            axes = range(len(dims_of(x)) - rank, len(dims_of(x)))
            return b.keep(b.add(ReduceOp("mean", x, axes)), axes)
        if any(extent % n for extent, n in zip(extents, wanted, strict=True)):
            raise Unsupported("adaptive pooling whose windows are not of one size")
        return pooled(
            b, "avg", x, [extent // n for extent, n in zip(extents, wanted, strict=True)], rank=rank
        )

    return build


for _rank in (1, 2, 3):
    LOWERINGS[getattr(aten, f"max_pool{_rank}d").default] = _max_pool(_rank)
    LOWERINGS[getattr(aten, f"avg_pool{_rank}d").default] = _avg_pool(_rank)
    for _name in (f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d"):
        if hasattr(aten, _name):
            LOWERINGS[getattr(aten, _name).default] = _adaptive(_rank)
    if _rank > 1:
        LOWERINGS[getattr(aten, f"max_pool{_rank}d_with_indices").default] = _with_indices(_rank)
