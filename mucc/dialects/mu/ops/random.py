"""Random numbers by counter: the same ones for the same seed, whichever kernel computes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from mucc.dialects.mu import tensor_rules
from mucc.dialects.mu.ops.base import integer
from mucc.dialects.mu.ops.elementwise import CmpOp, ConstantOp, DivOp, SelectOp
from mucc.dialects.mu.ops.pointwise import ValueConstraint
from mucc.dialects.mu.ops.views import GeneratedOp
from mucc.dialects.mu.surface import EXTENTS, INTS, NUMBER, VALUE, Function, Option, Parameter, X, extents
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.surface import number as real
from mucc.dialects.mu.types import Dims, Shaped


@irdl_op_definition
class RandomOp(GeneratedOp):
    """Draw uniform numbers from 0 to below 1 by Philox4x32-10, in f32, from a seed and each element's number.

    `stream` tells apart the numbers that a program draws with one seed.
    """

    name = "mu.random"

    stream = prop_def(IntegerAttr)
    seed = operand_def(ValueConstraint)

    FORMAT: ClassVar[str] = "$seed `stream` $stream attr-dict `:` functional-type(operands, results)"

    def __init__(self, dims: Dims, seed: SSAValue | Operation, stream: int = 0):
        value = SSAValue.get(seed)
        literal = value.owner.value.value.data if isinstance(value.owner, ConstantOp) else None
        super().__init__(
            operands=[value],
            result_types=[tensor_rules.random(dims, value.type, literal, stream)],
            properties={"stream": integer(stream)},
        )

    def inferred(self) -> Attribute:
        literal = self.seed.owner.value.value.data if isinstance(self.seed.owner, ConstantOp) else None
        dims = Shaped.of(self.result.type).dims
        return tensor_rules.random(dims, self.seed.type, literal, self.stream.value.data)


OPERATIONS = (RandomOp,)


# The language

_SEED, _STREAM = Parameter("seed", VALUE), Parameter("stream", INTS, "0")


def _random(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    return RandomOp(extents(options), values[0], one(options, "stream"))


def _dropout(values: Sequence[SSAValue], options: dict[str, Option]) -> Sequence[Operation]:
    """Build `where(random(..., seed) >= p, x / (1 - p), 0)`."""
    x, seed = values
    share = real(options, "p", 0.0)
    drawn = RandomOp(tensor_rules.dropout(x.type, share).dims, seed, one(options, "stream"))
    # No number lies between p and the next multiple of 2^-24, which f32 holds exactly.
    limit, rest, zero = ConstantOp(math.ceil(share * 2**24) / 2**24), ConstantOp(1 - share), ConstantOp(0.0)
    kept = CmpOp("ge", drawn, limit)
    scaled = DivOp(x, rest)
    return [drawn, limit, rest, zero, kept, scaled, SelectOp(kept, scaled, zero)]


FUNCTIONS = (
    Function(
        "random",
        (Parameter("shape", EXTENTS), _SEED, _STREAM),
        "Uniform numbers of f32, 0 <= y < 1, by Philox4x32-10; the seed is an `s32[]` or an integer",
        _random,
    ),
    Function(
        "dropout",
        (X, Parameter("p", NUMBER), _SEED, _STREAM),
        "`where(random(..., seed, stream) >= p, x / (1 - p), 0)`",
        _dropout,
    ),
)
