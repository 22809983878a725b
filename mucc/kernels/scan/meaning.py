"""Interpreter of the node of scan kernels."""

from __future__ import annotations

from typing import Any

from mucc.dialects.cutlass.nodes import are_bits
from mucc.dialects.mu.arrays import wrapped
from mucc.dialects.mu.meanings.composite import scan
from mucc.kernels.interpreter import CutlassFunctions
from mucc.kernels.scan.op import RunningOp, ScanKernelOp


def running(functions: CutlassFunctions, op: RunningOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Scan a value over the launch's space; integers of 32 bits wrap around."""
    kernel, arrays = op.parent_op(), functions.arrays
    assert isinstance(kernel, ScanKernelOp)
    value = functions.over_space(args[0])
    flags = {"reverse": kernel.reverse is not None, "exclusive": kernel.exclusive is not None}
    kind, axis = kernel.kind.data, kernel.axis.value.data
    if are_bits(op.value):
        return (wrapped(arrays, scan(arrays, kind, arrays.whole(value), axis, **flags)),)
    return (scan(arrays, kind, value, axis, **flags),)
