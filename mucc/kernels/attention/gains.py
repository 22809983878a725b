"""Find operations on scores of which only the absolute error matters, since softmax follows."""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, YieldOp
from mucc.dialects.mu.folding import literal
from mucc.dialects.mu.ops import elementwise as e
from mucc.kernels.attention.op import AttendOp

MOST_GAIN = 256.0
"""How much an absolute error of 3e-7 may grow on its way to the score: to 8e-5. Weights change by more when
they are rounded to 16 bits."""

_KEEPS = (e.AddOp, e.SubOp, e.NegOp, e.MinOp, e.MaxOp, e.AbsOp)


def feels_absolute_error(op: Operation) -> bool:
    """Whether the result of an operation reaches softmax through sums, and factors of at most `MOST_GAIN`."""
    return _gain(op.results[0]) <= MOST_GAIN


def _gain(value: SSAValue) -> float:
    """Return how much an error of a value may grow until softmax; infinity where that is not known."""
    return max((_gain_through(use.operation, value) for use in value.uses), default=math.inf)


def _gain_through(op: Operation, value: SSAValue) -> float:
    match op:
        case AttendOp():
            return 1.0 if value == op.score and op.without_softmax is None else math.inf
        case YieldOp():
            kernel = op.parent_op()
            return _gain(kernel.result) if isinstance(kernel, ComputeOp) else math.inf
        case e.MulOp():
            factor = literal(op.rhs if op.lhs == value else op.lhs)
            return math.inf if factor is None else abs(factor) * _gain(op.result)
        case e.DivOp() if op.lhs == value and (divisor := literal(op.rhs)):
            return _gain(op.result) / abs(divisor)
        case e.SelectOp() if op.operands[0] != value:
            return _gain(op.result)
        case _ if isinstance(op, _KEEPS):
            return _gain(op.results[0])
        case _:
            return math.inf
