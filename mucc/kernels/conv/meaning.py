"""What a convolution kernel computes, in float64."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.meanings.windows import channels_last, convolved, spread
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.interpreter import CutlassFunctions


def sums(functions: CutlassFunctions, op: ConvKernelOp, args: tuple[Any, ...]) -> Any:
    """Return the sum of products of each output."""
    x, w = (
        functions.read(value).reshape(functions.extents(dims))
        for value, dims in zip(args, (op.x_dims, op.w_dims), strict=True)
    )
    compute = spread if op.geometry.transposed else convolved
    result = compute(functions.arrays, x, w, op.windows, functions.extents(op.places), op.geometry.groups)
    return channels_last(functions.arrays, result) if op.geometry.channels_last else result
