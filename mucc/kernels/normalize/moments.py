"""Find two reductions over a row in one pass: mean and squared distances, or maximum and exponentials."""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, LoadNode, YieldOp, are_bits
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.pointwise import ConstantOp, ExtentOp
from mucc.dialects.mu.ops.reduction import Reduction
from mucc.dialects.mu.types import Dim
from mucc.kernels.normalize.op import RowReduceOp


def sums_squares(second: RowReduceOp, first: RowReduceOp, length: Dim) -> bool:
    """Whether `second` sums `(x - mean)²` where `first` sums `x` over `length` elements.

    Then one pass finds both: count, mean and squares of parts of a row combine to those of the row.
    """
    compute = second.value.owner
    if not isinstance(compute, ComputeOp) or are_bits(first.value):
        return False
    if {first.kind.data, second.kind.data} != {Reduction.SUM}:
        return False
    body = _Body(compute, first, length)
    last = compute.body.block.last_op
    assert isinstance(last, YieldOp)
    square = last.value.owner
    if not isinstance(square, e.MulOp) or square.operands[0] is not square.operands[1]:
        return False
    distance = square.operands[0].owner
    if not isinstance(distance, e.SubOp):
        return False
    x, mean = distance.operands
    return any(body.given(a) is first.value and body.is_mean(b) for a, b in ((x, mean), (mean, x)))


def sums_exponentials(second: RowReduceOp, first: RowReduceOp) -> bool:
    """Whether `second` sums `exp(x - max)` where `first` is the maximum of `x`.

    Then one pass finds both: with m the maximum of a part of a row and s its sum of exp(x - m), that of a row
    with maximum M is the sum of s exp(m - M).
    """
    compute = second.value.owner
    if not isinstance(compute, ComputeOp) or are_bits(first.value):
        return False
    if (first.kind.data, second.kind.data) != (Reduction.MAX, Reduction.SUM):
        return False
    body = _Body(compute, first, 0)
    last = compute.body.block.last_op
    assert isinstance(last, YieldOp)
    return isinstance(power := last.value.owner, e.ExpOp) and body.is_below(power.operands[0])


def is_below_maximum(value: SSAValue) -> bool:
    """Whether a value of a body is x - max, with the maximum of x over a row: at most 0, or NaN."""
    compute = value.owner.parent_op() if isinstance(value.owner, Operation) else None
    if not isinstance(compute, ComputeOp):
        return False
    owners = (given.owner for given in compute.inputs)
    maxima = (o for o in owners if isinstance(o, RowReduceOp) and o.kind.data is Reduction.MAX)
    return any(not are_bits(most.value) and _Body(compute, most, 0).is_below(value) for most in maxima)


def is_sum_of_exponentials(value: SSAValue) -> bool:
    """Whether a value is the sum of exp(x - max) over a row, which is from 1 to its length, or NaN."""
    second = value.owner
    if not isinstance(second, RowReduceOp) or not isinstance(compute := second.value.owner, ComputeOp):
        return False
    owners = (given.owner for given in compute.inputs)
    return any(isinstance(o, RowReduceOp) and sums_exponentials(second, o) for o in owners)


class _Body:
    """The body of a compute node, with what its arguments are."""

    def __init__(self, compute: ComputeOp, first: RowReduceOp, length: Dim):
        self.inputs, self.first, self.length = compute.inputs, first, length

    def given(self, value: SSAValue) -> SSAValue | None:
        return self.inputs[value.index] if isinstance(value, BlockArgument) else None

    def is_below(self, value: SSAValue) -> bool:
        """Whether a value is that of `first` minus its maximum."""
        if not isinstance(distance := value.owner, e.SubOp):
            return False
        x, most = distance.operands
        return self.given(x) is self.first.value and self.given(most) is self.first.result

    def is_mean(self, value: SSAValue) -> bool:
        match value.owner:
            case e.MulOp(operands=(a, b)):
                pairs = ((a, b), (b, a))
                return any(self.given(s) is self.first.result and self.is_share(c) for s, c in pairs)
            case e.DivOp(operands=(a, b)):
                return self.given(a) is self.first.result and self.is_length(b)
            case _:
                return False

    def is_share(self, value: SSAValue) -> bool:
        """Whether a value is 1 / length."""
        match value.owner:
            case ConstantOp(value=number):
                return isinstance(self.length, int) and abs(number.value.data * self.length - 1) < 1e-9
            case e.DivOp(operands=(a, b)):
                return isinstance(a.owner, ConstantOp) and a.owner.value.value.data == 1 and self.is_length(b)
            case _:
                return False

    def is_length(self, value: SSAValue) -> bool:
        if isinstance(value.owner, ConstantOp):
            return value.owner.value.value.data == self.length
        given = self.given(value)
        if given is None or not isinstance(given.owner, LoadNode):
            return False
        extent = given.owner.source.owner
        return isinstance(extent, ExtentOp) and extent.extent.data == self.length
