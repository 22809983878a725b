"""Interpret convolution kernels in float64."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.meanings.windows import (
    channels_last,
    convolved,
    partial_moments,
    pooled_windows,
    spread,
)
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.op import ConvKernelOp, PooledSumsOp, StoreMomentsOp
from mucc.kernels.interpreter import CutlassFunctions, Launch


def sums(functions: CutlassFunctions, op: ConvKernelOp, args: tuple[Any, ...]) -> Any:
    """Return the sum of products of each output."""
    x, w = (
        functions.read(value).reshape(functions.extents(dims))
        for value, dims in zip(args, (op.x_dims, op.w_dims), strict=True)
    )
    compute = spread if op.geometry.transposed else convolved
    result = compute(functions.arrays, x, w, op.windows, functions.extents(op.places), op.geometry.groups)
    return channels_last(functions.arrays, result) if op.geometry.channels_last else result


def pooled(functions: CutlassFunctions, op: PooledSumsOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pool over the launch's space, and make what is left the space of stored elements."""
    x = functions.over_space(args[0])
    windows = {axis: Window(size, size) for axis, size in enumerate(op.sizes, 2)}
    space = tuple(e // windows[a].size if a in windows else e for a, e in enumerate(x.shape))
    value = pooled_windows(functions.arrays, op.kind.data, x, windows, space, count_pad=False, divisor=None)
    functions.launch = Launch(space)
    return (value,)


def store_moments(functions: CutlassFunctions, op: StoreMomentsOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Store the moments of a value in the first cell of each channel."""
    kernel = op.parent_op()
    assert isinstance(kernel, ConvKernelOp)
    x, shape = functions.over_space(args[0]), functions.shape(op.destination.type)
    value = partial_moments(functions.arrays, x, kernel.channel_axis, op.across is not None, shape)
    functions.write(args[1], op.destination.type, value)
    return ()
