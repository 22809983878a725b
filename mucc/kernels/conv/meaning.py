"""What a convolution kernel computes, in float64."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.meanings.windows import convolved, spread
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.interpreter import CutlassFunctions


def sums(functions: CutlassFunctions, op: ConvKernelOp, args: tuple[Any, ...]) -> Any:
    """Return the sum of products of each output."""
    x, w = (
        functions.read(value).reshape(functions.extents(dims))
        for value, dims in zip(args, (op.x_dims, op.w_dims), strict=True)
    )
    compute = spread if op.geometry.transposed else convolved
    places = functions.extents(op.extents)[2:]
    return compute(functions.arrays, x, w, op.windows, places, op.geometry.groups)
