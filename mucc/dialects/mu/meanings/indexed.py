"""Interpret operations that take elements by index."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from mucc.dialects.mu.meanings.base import Machine, Meaning
from mucc.dialects.mu.ops.indexed import TakeAlongOp


def _take_along(machine: Machine, op: TakeAlongOp, x: Any, index: Any) -> Any:
    """Take elements along an axis by index. Raises ValueError MU6024 for an index out of range."""
    axis = op.axis.value.data
    extent = int(x.shape[axis])
    if bool(((index < 0) | (index >= extent)).any()):
        raise ValueError(f"MU6024: the index names none of the {extent} elements")
    return machine.arrays.take_along(x, index, axis)


MEANINGS: dict[type[Operation], Meaning] = {TakeAlongOp: lambda m, op, v: _take_along(m, op, v[0], v[1])}
