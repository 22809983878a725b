"""Chains of reductions over the same axes of a space, of which each needs the results before it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.views import AXIS_VIEWS, BroadcastOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.walk import postorder

_CHAINED = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.AMAX)
_IN_FLIGHT = (ElementwiseOp, BroadcastOp, *AXIS_VIEWS)


def is_reduced_again(op: ReduceOp) -> bool:
    """Whether the operand's space is reduced over the same axes once more, of values that need the result.

    So are that of the maximum in a softmax and that of the sum in a variance. Reductions to one number do not
    count, because no block has all of their elements.
    """
    space = Shaped.of(op.operand.type).dims
    if len(op.axes) == len(space):
        return False

    def readers(value: SSAValue) -> list[SSAValue]:
        users = (use.operation for use in value.uses)
        return [user.results[0] for user in users if isinstance(user, _IN_FLIGHT)]

    return any(
        isinstance(user := use.operation, ReduceOp)
        and user.axes == op.axes
        and user.kind.data in _CHAINED
        and Shaped.of(user.operand.type).dims == space
        for value in postorder(op.result, readers)
        for use in value.uses
    )
