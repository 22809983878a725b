"""Interpret the nodes of reduction kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation

from mucc.dialects.mu.ops.reduction import Extreme
from mucc.kernels.interface import Meaning
from mucc.kernels.interpreter import CutlassFunctions
from mucc.kernels.reduce.op import ArgReducedOp, ReducedOp, ReduceStoreOp


def _kept_shape(functions: CutlassFunctions) -> tuple[int, ...]:
    """Return the extents of the launch's space, 1 along the reduced axes."""
    launch = functions.launch
    return tuple(1 if axis in launch.axes else extent for axis, extent in enumerate(launch.space))


def _reduced(functions: CutlassFunctions, op: ReducedOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    value = functions.reduction(op.kind.data, op.value, args[0], functions.launch.axes)
    return (value.reshape(_kept_shape(functions)),)


def _arg_reduced(functions: CutlassFunctions, op: ArgReducedOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    arrays = functions.arrays
    extreme = arrays.xp.argmax if op.kind.data is Extreme.ARGMAX else arrays.xp.argmin
    numbers = extreme(functions.over_space(args[0]), functions.launch.axes[0])
    return (arrays.float64(numbers).reshape(_kept_shape(functions)),)


def _store(functions: CutlassFunctions, op: ReduceStoreOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    whole = functions.read(args[0]) + functions.arrays.full(_kept_shape(functions), 0.0)
    functions.write(args[1], op.destination.type, whole)
    return ()


MEANINGS: Mapping[type[Operation], Meaning] = {
    ReducedOp: _reduced,
    ArgReducedOp: _arg_reduced,
    ReduceStoreOp: _store,
}
