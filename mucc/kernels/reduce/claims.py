"""Which operations a reduction kernel computes, and which of them together."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, Reduction
from mucc.dialects.mu.ops.views import VIEWS
from mucc.dialects.mu.types import Shaped
from mucc.dialects.walk import postorder

REDUCTIONS = (Reduction.SUM, Reduction.PROD, Reduction.MAX, Reduction.MIN, Reduction.AMAX)


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


def shares_pass(one: AnchorOp, other: AnchorOp) -> bool:
    """Whether two reductions are over the same axes of equal extents, and have an input in common."""
    if not (isinstance(one, ReduceOp | ArgReduceOp) and isinstance(other, ReduceOp | ArgReduceOp)):
        return False
    if Shaped.of(one.operand.type).dims != Shaped.of(other.operand.type).dims:
        return False
    if not (axes := reduced_axes(one)) or axes != reduced_axes(other):
        return False
    return bool(_inputs(one.operand) & _inputs(other.operand))


def _inputs(value: SSAValue) -> set[SSAValue]:
    """Return the inputs of a value's pointwise work, without those of lower rank, which are broadcast."""
    pointwise, rank = (ElementwiseOp, *VIEWS), len(Shaped.of(value.type).dims)

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, pointwise) else ()

    inputs = (v for v in postorder(value, operands) if not isinstance(v.owner, pointwise))
    return {v for v in inputs if len(Shaped.of(v.type).dims) >= rank}
