"""Decide which operations become a reduction kernel, and which reductions share one kernel."""

from __future__ import annotations

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, Reduction
from mucc.dialects.mu.ops.views import VIEWS
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.inputs import Inputs

REDUCTIONS = (Reduction.SUM, Reduction.PROD, Reduction.MAX, Reduction.MIN, Reduction.AMAX)

_TRANSPARENT = (ElementwiseOp, *VIEWS)


def claims(anchor: AnchorOp | None) -> bool:
    """Whether a reduction kernel computes an operation; `decompose` rewrites other reductions into such."""
    match anchor:
        case ReduceOp():
            return anchor.kind.data in REDUCTIONS
        case _:
            return isinstance(anchor, ArgReduceOp)


def reduced_axes(anchor: ReduceOp | ArgReduceOp) -> tuple[int, ...]:
    """Return the axes of the operand that an operation drops."""
    return anchor.axes.get_values() if isinstance(anchor, ReduceOp) else (anchor.axis.value.data,)


def shares_pass(one: AnchorOp, other: AnchorOp, inputs: Inputs) -> bool:
    """Whether two reductions are over the same axes of equal extents, and have an input in common.

    Inputs of lower rank, which are broadcast, do not count.
    """
    if not (isinstance(one, ReduceOp | ArgReduceOp) and isinstance(other, ReduceOp | ArgReduceOp)):
        return False
    dims = Shaped.of(one.operand.type).dims
    if dims != Shaped.of(other.operand.type).dims:
        return False
    if not (axes := reduced_axes(one)) or axes != reduced_axes(other):
        return False
    common = inputs.of(one.operand, _TRANSPARENT) & inputs.of(other.operand, _TRANSPARENT)
    return any(len(Shaped.of(value.type).dims) >= len(dims) for value in common)
