"""Interpreter of the node of pooling kernels."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.meanings.windows import channels_last, pooled_windows
from mucc.kernels.interpreter import CutlassFunctions, Launch
from mucc.kernels.pool.op import PooledOp, PoolKernelOp


def pooled(functions: CutlassFunctions, op: PooledOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pool over the launch's space, and make it the space of the stored elements."""
    kernel = op.parent_op()
    assert isinstance(kernel, PoolKernelOp)
    space = functions.extents(kernel.extents)
    arrays, x, shape = functions.arrays, functions.over_space(args[0]), list(space)
    channels_are_last = kernel.channels_last is not None
    if channels_are_last:
        order = (0, len(space) - 1, *range(1, len(space) - 1))
        x, shape = arrays.permute(x, order), [space[axis] for axis in order]
    windows = list(kernel.windows.values())
    value = pooled_windows(
        arrays,
        kernel.kind.data,
        x,
        dict(enumerate(windows, len(shape) - len(windows))),
        shape,
        count_pad=kernel.count_pad is not None,
        divisor=kernel.divides_by,
    )
    if channels_are_last:
        value = channels_last(arrays, value)
    functions.launch = Launch(space)
    return (value,)
