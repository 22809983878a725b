"""Numbers between which all elements of a value lie, whatever the inputs are."""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.views import (
    BroadcastOp,
    ExpandOp,
    PermuteOp,
    RegroupOp,
    SqueezeOp,
    TransposeOp,
)
from mucc.dialects.mu.types import WIDE, Shaped


class Bounds(NamedTuple):
    """The least and the greatest number, infinite where there is none. NaN may be among the elements."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


_ANY = Bounds()


def bounds_of(value: SSAValue) -> Bounds:
    """Return bounds of a value; those of a product or a parameter are infinite.

    Values that are rounded may pass a bound by as much as rounding changes the bound.
    """
    if not isinstance(owner := value.owner, Operation):
        return _ANY
    operands = owner.operands
    match owner:
        case e.ConstantOp(value=constant):
            number = constant.value.data
            return Bounds(number, number) if math.isfinite(number) else _ANY
        case e.SigmoidOp() | e.HardsigmoidOp():
            return Bounds(0.0, 1.0)
        case e.TanhOp() | e.SoftsignOp():
            return Bounds(-1.0, 1.0)
        case e.HardtanhOp() as op:
            return Bounds(op.lo.value.data, op.hi.value.data)
        case e.ClampOp():
            x, low, high = map(bounds_of, operands)
            return _least(_greatest(x, low), high)
        case e.MinOp():
            return _least(*map(bounds_of, operands))
        case e.MaxOp():
            return _greatest(*map(bounds_of, operands))
        case e.ReluOp():
            return _greatest(bounds_of(operands[0]), Bounds(0.0, 0.0))
        case e.CastOp() | e.RetypeOp() if Shaped.of(value.type).element_type in WIDE:
            return bounds_of(operands[0])
        case TransposeOp() | PermuteOp() | ExpandOp() | SqueezeOp() | BroadcastOp() | RegroupOp():
            return bounds_of(operands[0])
        case _:
            return _ANY


def _least(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(min(a.low, b.low), min(a.high, b.high))


def _greatest(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(max(a.low, b.low), max(a.high, b.high))
