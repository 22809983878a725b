"""Interpreter of the node of pooling kernels."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.meanings.windows import pooled_windows
from mucc.kernels.interpreter import CutlassFunctions, Launch
from mucc.kernels.pool.op import PooledOp, PoolKernelOp


def pooled(functions: CutlassFunctions, op: PooledOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pool over the launch's space, and make it the space of the stored elements."""
    kernel = op.parent_op()
    assert isinstance(kernel, PoolKernelOp)
    space = functions.extents(kernel.extents)
    value = pooled_windows(
        functions.arrays,
        kernel.kind.data,
        functions.over_space(args[0]),
        kernel.windows,
        space,
        count_pad=kernel.count_pad is not None,
        divisor=kernel.divides_by,
    )
    functions.launch = Launch(space)
    return (value,)
