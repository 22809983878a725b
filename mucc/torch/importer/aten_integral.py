"""Lower ATen's quotients with remainders, and operations on the bits of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.torch.importer.aten_pointwise import logical_and, logical_not, logical_or, logical_xor, quotient
from mucc.torch.importer.lowering import (
    LOWERINGS,
    MU_DTYPES,
    Builder,
    Built,
    Unsupported,
    aten,
    dtype_of,
    lowers,
)

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}
"""The smallest and the largest integer of each dtype of torch; of int64, those of s32."""


def _integer(b: Builder, x: Any) -> SSAValue:
    """Return an operand of an operation on integers: a value, a bool as 0 or 1, or a literal.

    Raises Unsupported for a literal that the dtype of the result does not hold.
    """
    if isinstance(x, SSAValue):
        value = b.value(x)
        return b.cast(value, "s32") if dtype_of(value) == "bool" else value
    least, most = LIMITS.get(b.result.dtype, LIMITS["int32"])
    if not isinstance(x, int) or not least <= x <= most:
        raise Unsupported(f"the operand {x!r} of an operation on {b.result.dtype}")
    return b.add(e.ConstantOp(float(x)))


def _is_integer(b: Builder) -> bool:
    return not b.result.is_float


# Quotients and remainders


def _divided(b: Builder, cls: Callable[..., Operation], x: Any, y: Any) -> SSAValue:
    return b.add(cls(_integer(b, x), _integer(b, y))) if _is_integer(b) else b.call(cls, x, y)


@lowers(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(b: Builder, x: Any, y: Any) -> Built:
    return _divided(b, e.RemainderOp, x, y)


@lowers(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(b: Builder, x: Any, y: Any) -> Built:
    return _divided(b, e.FmodOp, x, y)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(b: Builder, x: Any, y: Any) -> Built:
    return _divided(b, e.FloorDivideOp, x, y)


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div(b: Builder, x: Any, y: Any, rounding_mode: str | None = None) -> Built:
    """`x / y`, rounded down or towards zero; of integers, what `fmod` leaves divides exactly."""
    match rounding_mode:
        case "floor":
            return floor_divide(b, x, y)
        case "trunc" if _is_integer(b):
            rest = _divided(b, e.FmodOp, x, y)
            return _divided(b, e.FloorDivideOp, b.call(e.SubOp, _integer(b, x), rest), y)
        case "trunc":
            return b.call(e.TruncOp, quotient(b, x, y))
        case _:
            return quotient(b, x, y)


# Bits


def _fitted(b: Builder, value: SSAValue) -> SSAValue:
    """Convert an s32 that fits to the dtype of the result."""
    return b.cast(value, MU_DTYPES[b.result.dtype]) if b.result.dtype in LIMITS else value


def _bits(cls: Callable[..., Operation], logical: Callable[..., Built]) -> Callable[..., Built]:
    def build(b: Builder, x: Any, y: Any) -> Built:
        if b.result.dtype == "bool":
            return logical(b, x, y)
        return _fitted(b, b.add(cls(_integer(b, x), _integer(b, y))))

    return build


for _name, _cls, _logical in (
    ("and", e.BitwiseAndOp, logical_and),
    ("or", e.BitwiseOrOp, logical_or),
    ("xor", e.BitwiseXorOp, logical_xor),
):
    for _kind in ("Tensor", "Scalar", "Scalar_Tensor"):
        LOWERINGS[getattr(getattr(aten, f"bitwise_{_name}"), _kind)] = _bits(_cls, _logical)


@lowers(aten.bitwise_not.default)
def bitwise_not(b: Builder, x: Any) -> Built:
    match b.result.dtype:
        case "bool":
            return logical_not(b, x)
        case "uint8":
            return _fitted(b, b.add(e.BitwiseXorOp(_integer(b, x), _integer(b, 255))))
        case _:
            return _fitted(b, b.add(e.BitwiseNotOp(_integer(b, x))))


@lowers(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
)
def left_shift(b: Builder, x: Any, y: Any) -> Built:
    """Shift to the left; what leaves an uint8 is cut off."""
    shifted = b.add(e.LeftShiftOp(_integer(b, x), _integer(b, y)))
    match b.result.dtype:
        case "int8":
            raise Unsupported("a shift of int8 to the left")
        case "uint8":
            return _fitted(b, b.add(e.BitwiseAndOp(shifted, _integer(b, 255))))
        case _:
            return shifted


@lowers(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
)
def right_shift(b: Builder, x: Any, y: Any) -> Built:
    return _fitted(b, b.add(e.RightShiftOp(_integer(b, x), _integer(b, y))))
