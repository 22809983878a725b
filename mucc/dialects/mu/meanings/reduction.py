"""Interpret reductions that array libraries lack: variance, argmax and argmin."""

from __future__ import annotations

import math
from typing import Any

from xdsl.ir import Operation

from mucc.dialects.mu.meanings.base import Machine, Meaning
from mucc.dialects.mu.ops import reduction as ops


def variance(machine: Machine, x: Any, axes: tuple[int, ...], correction: float) -> Any:
    """Compute the variance in two passes, divided by n - correction."""
    arrays = machine.arrays
    count = math.prod(int(x.shape[axis]) for axis in axes)
    kept = tuple(1 if i in axes else int(n) for i, n in enumerate(x.shape))
    distance = x - arrays.reduce("sum", x, axes).reshape(kept) / count
    squares = arrays.reduce("sum", distance * distance, axes)
    # As in torch: division by zero gives infinity or NaN.
    return squares / (count - correction) if count > correction else squares * math.inf


def _extreme(machine: Machine, op: ops.ArgReduceOp, x: Any) -> Any:
    xp = machine.arrays.xp
    function = xp.argmax if op.kind.data is ops.Extreme.ARGMAX else xp.argmin
    return machine.arrays.float64(function(x, op.axis.value.data))


MEANINGS: dict[type[Operation], Meaning] = {
    ops.VarianceOp: lambda m, op, v: variance(m, v[0], tuple(op.axes.get_values()), op.correction.value.data),
    ops.ArgReduceOp: lambda m, op, v: _extreme(m, op, v[0]),
}
