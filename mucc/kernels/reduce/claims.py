"""Which operations a reduction kernel computes, and which of them together."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, Reduction
from mucc.dialects.mu.ops.views import VIEWS
from mucc.dialects.mu.types import Shaped

REDUCTIONS = (Reduction.SUM, Reduction.PROD, Reduction.MAX, Reduction.MIN, Reduction.AMAX)


def claims(anchor: AnchorOp | None) -> bool:
    """Whether a reduction kernel computes an operation; what is left `decompose` rewrites into such ones."""
    match anchor:
        case ReduceOp():
            return anchor.kind.data in REDUCTIONS
        case _:
            return isinstance(anchor, ArgReduceOp)


def reduced_axes(anchor: ReduceOp | ArgReduceOp) -> tuple[int, ...]:
    """Return the axes of the operand that an operation drops."""
    return anchor.axes.get_values() if isinstance(anchor, ReduceOp) else (anchor.axis.value.data,)


def shares_pass(one: AnchorOp, other: AnchorOp) -> bool:
    """Whether two reductions are over the same axes of equal spaces, and read a tensor of that shape both."""
    if not (isinstance(one, ReduceOp | ArgReduceOp) and isinstance(other, ReduceOp | ArgReduceOp)):
        return False
    if Shaped.of(one.operand.type).dims != Shaped.of(other.operand.type).dims:
        return False
    if not (axes := reduced_axes(one)) or axes != reduced_axes(other):
        return False
    return bool(_read(one.operand) & _read(other.operand))


def _read(value: SSAValue) -> set[SSAValue]:
    """Return the tensors as large as a value from which it is computed point by point."""
    size, found = len(Shaped.of(value.type).dims), set[SSAValue]()
    seen, pending = set[SSAValue](), [value]
    while pending:
        if (value := pending.pop()) in seen:
            continue
        seen.add(value)
        if isinstance(owner := value.owner, (ElementwiseOp, *VIEWS)):
            pending += owner.operands
        elif len(Shaped.of(value.type).dims) >= size:
            found.add(value)
    return found
