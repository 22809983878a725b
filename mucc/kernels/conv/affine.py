"""Values that are a convolution, scaled and shifted by the same numbers at all positions of a channel."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.ops.elementwise import AddOp, DivOp, MulOp, SubOp
from mucc.dialects.mu.types import Shaped

Affine = AddOp | SubOp | MulOp | DivOp


def convolution_of(value: SSAValue) -> ConvolutionOp | None:
    """Return the convolution of an affine value that nothing else reads; None for other values.

    Means over positions of such a value are those of the convolution, scaled and shifted likewise.
    """
    if not value.has_one_use():
        return None
    match op := value.owner:
        case ConvolutionOp():
            return op
        case AddOp() | SubOp() | MulOp() | DivOp():
            moving = [v for v in op.operands if not is_same(v, len(Shaped.of(value.type).dims))]
            is_legal = len(moving) == 1 and (not isinstance(op, DivOp) or moving[0] is op.operands[0])
            if not is_legal or Shaped.of(moving[0].type) != Shaped.of(value.type):
                return None
            return convolution_of(moving[0])
        case _:
            return None


def is_same(value: SSAValue, rank: int) -> bool:
    """Whether a value is the same at all positions of a channel of tensors of a rank."""
    dims = Shaped.of(value.type).dims
    return all(d == 1 for d in (dims[1:] if len(dims) == rank - 1 else dims))


def rebuilt(
    value: SSAValue,
    rank: int,
    add: Callable[[Operation], SSAValue],
    convolved: SSAValue,
    vector: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """Build an affine value of tensors of a rank with `convolved` for its convolution.

    `add` appends an operation, and `vector` converts what scales and shifts.
    """
    op = value.owner
    if not isinstance(op, Affine):
        return convolved
    operands = (
        vector(v) if is_same(v, rank) else rebuilt(v, rank, add, convolved, vector) for v in op.operands
    )
    return add(type(op)(*operands))


class Appending:
    """Appends operations before one that is replaced, at its place in the source."""

    def __init__(self, op: Operation, rewriter: PatternRewriter):
        self._location = op.location
        self._rewriter = rewriter

    def __call__(self, op: Operation) -> SSAValue:
        op.location = self._location
        self._rewriter.insert(op)
        return op.results[0]
