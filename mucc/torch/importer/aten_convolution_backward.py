"""Lower ATen's gradients of convolutions to convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr, MatmulOp
from mucc.dialects.mu.ops.conv import ConvOp, ConvTransposeOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import PadOp, ReshapeOp, SliceOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, TransposeOp
from mucc.torch.importer.aten_convolution import Sizes, spread
from mucc.torch.importer.lowering import Builder, Built, Unsupported, aten, dims_of, dtype_of, fixed, lowers


class Geometry(NamedTuple):
    """Windows along the spatial axes, and groups of channels."""

    stride: list[int]
    pad: list[int]
    dilation: list[int]
    groups: int


@lowers(aten.convolution_backward.default)
def convolution_backward(
    b: Builder,
    gradient: Any,
    x: Any,
    w: Any,
    bias_sizes: Any,
    stride: Sizes,
    pad: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_pad: Sizes,
    groups: int,
    wanted: Sequence[bool],
) -> Built:
    rank = len(dims_of(w)) - 2
    if len(dims_of(x)) != rank + 2:
        raise Unsupported("a gradient of a convolution without a batch")
    geometry = Geometry(spread(stride, rank), spread(pad, rank), spread(dilation, rank), groups)
    to_x = to_w = to_bias = None
    if wanted[0]:
        to_x = _gradient_of_x(b, gradient, x, w, geometry, transposed)
    if wanted[1]:
        seen, made = (gradient, x) if transposed else (x, gradient)
        to_w = _gradient_of_weights(b, seen, made, [fixed(d) for d in dims_of(w)[2:]], geometry)
    if wanted[2]:
        to_bias = b.add(ReduceOp("sum", gradient, [0, *range(2, rank + 2)]))
    return to_x, to_w, to_bias


def _compute(b: Builder, value: SSAValue) -> ComputeAttr | None:
    return ComputeAttr(Compute(b.conv_compute)) if dtype_of(value) == "f32" else None


def _gradient_of_x(
    b: Builder, gradient: SSAValue, x: SSAValue, w: SSAValue, geometry: Geometry, transposed: bool
) -> SSAValue:
    """Each element of x gets the gradients of the outputs whose windows have it."""
    options: dict[str, Any] = {**geometry._asdict(), "compute": _compute(b, gradient)}
    if transposed:
        result = b.add(ConvOp(gradient, w, **options))
        for axis, extent in enumerate(dims_of(x)[2:], 2):
            result = _first(b, result, axis, fixed(extent))
        return result
    more: list[int] = []
    for axis in range(len(geometry.stride)):
        places, extent = fixed(dims_of(gradient)[axis + 2]), fixed(dims_of(x)[axis + 2])
        reach = geometry.dilation[axis] * (fixed(dims_of(w)[axis + 2]) - 1) + 1
        more.append(extent - ((places - 1) * geometry.stride[axis] - 2 * geometry.pad[axis] + reach))
    return b.add(ConvTransposeOp(gradient, w, output_pad=more, **options))


def _gradient_of_weights(
    b: Builder, seen: SSAValue, made: SSAValue, window: Sequence[int], geometry: Geometry
) -> SSAValue:
    """Convolve what windows see with what is made of it, over the batch: `[O, C/groups, window]`.

    Channels are the batch, and the batch channels. Zeros behind x are as many as the window needs, so that
    the result has no more places than it.
    """
    groups, rank = geometry.groups, len(window)
    if groups == 1 and math.prod(window) == 1 and not any(geometry.pad):
        return _gradient_of_points(b, seen, made, geometry)
    places = [fixed(d) for d in dims_of(made)[2:]]
    behind: list[int] = []
    for axis in range(rank):
        reach = (places[axis] - 1) * geometry.stride[axis] + (window[axis] - 1) * geometry.dilation[axis] + 1
        extent = fixed(dims_of(seen)[axis + 2])
        more = reach - geometry.pad[axis] - extent
        seen = _first(b, seen, axis + 2, min(extent, extent + more))
        behind.append(max(more, 0))
    x, w = _batch_second(b, seen, groups, inner=False), _batch_second(b, made, groups, inner=True)
    pad = geometry.pad
    if behind != pad:
        x = b.add(PadOp(x, (0, 0, *pad), (0, 0, *behind)))
        pad = [0] * rank
    compute = _compute(b, seen)
    result = b.add(ConvOp(x, w, geometry.dilation, pad, geometry.stride, groups, compute=compute))
    return b.add(PermuteOp(result, (1, 0, *range(2, rank + 2))))


def _batch_second(b: Builder, value: SSAValue, groups: int, *, inner: bool) -> SSAValue:
    """Return `[N, G*C, ...]` as `[C, G*N, ...]`, or with `inner` groups as `[G*C, N, ...]`."""
    batch, channels, *extents = dims_of(value)
    if groups == 1:
        return b.add(PermuteOp(value, (1, 0, *range(2, len(extents) + 2))))
    each, spatial = fixed(channels) // groups, range(3, len(extents) + 3)
    parts = b.add(ReshapeOp(value, (batch, groups, each, *extents)))
    parts = b.add(PermuteOp(parts, (1, 2, 0, *spatial) if inner else (2, 1, 0, *spatial)))
    merged = (groups * each, batch) if inner else (each, groups * fixed(batch))
    return b.add(ReshapeOp(parts, (*merged, *extents)))


def _gradient_of_points(b: Builder, seen: SSAValue, made: SSAValue, geometry: Geometry) -> SSAValue:
    """Multiply matrices over all positions, for windows of one element: `[O, C, 1, ...]`.

    Operands of 16 bits are multiplied with channels innermost, as they lie in networks of that order; those
    of 32 bits with positions innermost, as tf32 is.
    """
    rank, places = len(geometry.stride), dims_of(made)[2:]
    for axis, (stride, count) in enumerate(zip(geometry.stride, places, strict=True), 2):
        if stride > 1:
            seen = b.add(SliceOp(seen, axis, 0, (fixed(count) - 1) * stride + 1, stride))
    order = (1, 0, *range(2, rank + 2)) if dtype_of(seen) == "f32" else (0, *range(2, rank + 2), 1)
    positions = math.prod(fixed(d) for d in (dims_of(made)[0], *places))

    def matrix(value: SSAValue) -> SSAValue:
        channels, moved = fixed(dims_of(value)[1]), b.add(PermuteOp(value, order))
        if dtype_of(value) == "f32":
            return b.add(ReshapeOp(moved, (channels, positions)))
        return b.call(TransposeOp, b.add(ReshapeOp(moved, (positions, channels))))

    product = b.add(MatmulOp(matrix(made), b.call(TransposeOp, matrix(seen)), _compute(b, seen)))
    return b.add(ExpandOp(product, [2 + axis for axis in range(rank)]))


def _first(b: Builder, value: SSAValue, axis: int, count: int) -> SSAValue:
    """Return the first `count` elements along an axis."""
    return value if dims_of(value)[axis] == count else b.add(SliceOp(value, axis, 0, count))
