"""Arithmetic on literals, at compile time and in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e


def _remainder(a: float, b: float) -> float:
    """Compute `a % b`; a zero has the sign of a, unlike Python's."""
    return math.copysign(0.0, a) if a % b == 0 else a % b


_FOLDS: dict[type[Operation], Callable[[float, float], float]] = {
    e.AddOp: lambda a, b: a + b,
    e.SubOp: lambda a, b: a - b,
    e.MulOp: lambda a, b: a * b,
}
_QUOTIENTS: dict[type[Operation], Callable[[float, float], float]] = {
    e.DivOp: lambda a, b: a / b,
    e.RemainderOp: _remainder,
    e.FmodOp: math.fmod,
    e.FloorDivideOp: lambda a, b: a // b,
}
"""Functions of two finite numbers, the second of which is not 0."""


def literal(value: SSAValue) -> float | None:
    """Return the number of a literal; None for other values."""
    return value.owner.value.value.data if isinstance(value.owner, e.ConstantOp) else None


def folded(op: Operation) -> float | None:
    """Compute the result of arithmetic on literals; None for anything else, and for division by zero."""
    match op:
        case e.NegOp() if (number := literal(op.operand)) is not None:
            return -number
        case e.BinaryOp() if op.result.type == f32:
            a, b = literal(op.lhs), literal(op.rhs)
            if a is None or b is None:
                return None
            if (fold := _FOLDS.get(type(op))) is not None:
                return fold(a, b)
            if (fold := _QUOTIENTS.get(type(op))) is None or b == 0 or not math.isfinite(a) or math.isinf(b):
                return None
            return fold(a, b)
        case _:
            return None
