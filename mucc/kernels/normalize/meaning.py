"""Interpreters of the nodes of normalize kernels."""

from __future__ import annotations

from typing import Any

from mucc.dialects.cutlass.nodes import are_bits
from mucc.dialects.mu.arrays import wrapped
from mucc.kernels.interpreter import CutlassFunctions
from mucc.kernels.normalize.op import RowReduceOp, RowStoreOp


def row_reduce(functions: CutlassFunctions, op: RowReduceOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reduce a value over the launch's axes, which stay with extent 1."""
    launch, arrays = functions.launch, functions.arrays
    full, kind, axes = functions.over_space(args[0]), op.kind.data.value, tuple(launch.axes)
    if are_bits(op.value):
        result = wrapped(arrays, arrays.reduce(kind, arrays.whole(full), axes))
    else:
        result = arrays.reduce(kind, full, axes)
    return (result.reshape(_rows(functions)),)


def row_store(functions: CutlassFunctions, op: RowStoreOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Store the value of each row."""
    value = functions.read(args[0]) + functions.arrays.full(_rows(functions), 0.0)
    functions.write(args[1], op.destination.type, value)
    return ()


def _rows(functions: CutlassFunctions) -> tuple[int, ...]:
    """Return the shape of a value with one element a row."""
    launch = functions.launch
    return tuple(1 if i in launch.axes else extent for i, extent in enumerate(launch.space))
