"""Rounding to integers, quotients and remainders, and the bits of integers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.pointwise import S32, BinaryOp, ElementwiseOp, UnaryOp, is_whole

# Rounding


class RoundingOp(UnaryOp, ABC):
    """Base of operations that round to an integer; an s32 stays as it is."""

    INTEGER: ClassVar[bool] = True


@irdl_op_definition
class FloorOp(RoundingOp):
    """The largest integer that is not above x."""

    name = "mu.floor"
    SURFACE: ClassVar[str | None] = "floor"


@irdl_op_definition
class CeilOp(RoundingOp):
    """The smallest integer that is not below x."""

    name = "mu.ceil"
    SURFACE: ClassVar[str | None] = "ceil"


@irdl_op_definition
class RoundOp(RoundingOp):
    """The nearest integer, of two the even one."""

    name = "mu.round"
    SURFACE: ClassVar[str | None] = "round"


@irdl_op_definition
class TruncOp(RoundingOp):
    """The integer next to x towards zero."""

    name = "mu.trunc"
    SURFACE: ClassVar[str | None] = "trunc"


@irdl_op_definition
class SignOp(UnaryOp):
    """1 where x > 0, -1 where x < 0, else 0; 0 for NaN too."""

    name = "mu.sign"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "sign"


# Quotients and remainders


@irdl_op_definition
class RemainderOp(BinaryOp):
    """The remainder of `floor_divide`, with the sign of b; spelled `a % b`."""

    name = "mu.remainder"
    INTEGER: ClassVar[bool] = True


@irdl_op_definition
class FmodOp(BinaryOp):
    """The remainder of the quotient towards zero, with the sign of a; that with the sign of b is `a % b`."""

    name = "mu.fmod"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "fmod"


@irdl_op_definition
class FloorDivideOp(BinaryOp):
    """The integer q with `a == q * b + a % b`: the quotient, rounded down."""

    name = "mu.floor_divide"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "floor_divide"


# Bits


class BitwiseOp(ElementwiseOp, ABC):
    """Base of operations on the 32 bits of integers; narrower integers are converted to s32 first."""

    INTEGER: ClassVar[bool] = True

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return rules.bitwise(operands)

    @classmethod
    def result_type(cls, values: Sequence[SSAValue]) -> Attribute:
        return cls.infer([S32 if is_whole(v) else v.type for v in values])

    @property
    def computes_integers(self) -> bool:
        return True


@irdl_op_definition
class BitwiseAndOp(BitwiseOp, BinaryOp):
    """The bits that are set in both integers."""

    name = "mu.bitwise_and"
    SURFACE: ClassVar[str | None] = "bitwise_and"


@irdl_op_definition
class BitwiseOrOp(BitwiseOp, BinaryOp):
    """The bits that are set in one of two integers, or both."""

    name = "mu.bitwise_or"
    SURFACE: ClassVar[str | None] = "bitwise_or"


@irdl_op_definition
class BitwiseXorOp(BitwiseOp, BinaryOp):
    """The bits in which two integers differ."""

    name = "mu.bitwise_xor"
    SURFACE: ClassVar[str | None] = "bitwise_xor"


@irdl_op_definition
class BitwiseNotOp(BitwiseOp, UnaryOp):
    """The integer with every bit flipped: -1 - x."""

    name = "mu.bitwise_not"
    SURFACE: ClassVar[str | None] = "bitwise_not"


@irdl_op_definition
class LeftShiftOp(BitwiseOp, BinaryOp):
    """The bits of a moved up by b places, zeros below; 0 unless 0 <= b < 32."""

    name = "mu.left_shift"
    SURFACE: ClassVar[str | None] = "left_shift"


@irdl_op_definition
class RightShiftOp(BitwiseOp, BinaryOp):
    """The bits of a moved down by b places, copies of the sign above; the sign alone unless 0 <= b < 32."""

    name = "mu.right_shift"
    SURFACE: ClassVar[str | None] = "right_shift"
