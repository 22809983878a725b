"""Interpret elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from mucc.dialects.mu import rules
from mucc.dialects.mu.arrays import Arrays
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.activations import SELU_ALPHA, SELU_SCALE
from mucc.dialects.mu.ops.conversions import ConversionOp
from mucc.dialects.mu.types import Shaped, dtype_name

Rule = Callable[[Arrays, Any, tuple[Any, ...]], Any]


def _number(a: Arrays, value: float) -> Any:
    return a.full((), value)


def _sigmoid(a: Arrays, x: Any) -> Any:
    # The exponential does not overflow, and a small result keeps its digits.
    raised = a.xp.exp(-a.xp.abs(x))
    return a.xp.where(x < 0, raised, _number(a, 1.0)) / (1 + raised)


def _softplus(a: Arrays, x: Any, beta: float) -> Any:
    z = beta * x
    return (a.xp.maximum(z, _number(a, 0.0)) + a.xp.log1p(a.xp.exp(-a.xp.abs(z)))) / beta


def _gelu(a: Arrays, op: e.GeluOp, x: Any) -> Any:
    if op.uses_tanh:
        return x * _sigmoid(a, 1.5957691216057308 * (x + 0.044715 * x * x * x))
    return 0.5 * x * a.erfc(x * -0.7071067811865476)


def _clip(a: Arrays, x: Any, lo: float, hi: float) -> Any:
    return a.xp.minimum(a.xp.maximum(x, _number(a, lo)), _number(a, hi))


def _elu(a: Arrays, x: Any, alpha: float) -> Any:
    return a.xp.where(x > 0, x, alpha * a.xp.expm1(a.xp.minimum(x, _number(a, 0.0))))


def _power(a: Arrays, op: e.PowOp, x: Any, y: Any) -> Any:
    """Compute C's `pow`; for the literal exponents 0.5 and -0.5 a square root, as PyTorch does."""
    literal = op.rhs.owner.value.value.data if isinstance(op.rhs.owner, e.ConstantOp) else None
    match literal:
        case 0.5:
            return a.xp.sqrt(x)
        case -0.5:
            return 1 / a.xp.sqrt(x)
        case _:
            return x**y


def _sign(a: Arrays, x: Any) -> Any:
    one, zero = _number(a, 1.0), _number(a, 0.0)
    return a.xp.where(x > 0, one, a.xp.where(x < 0, -one, zero))


def _fmod(a: Arrays, op: e.ElementwiseOp, x: Any, y: Any) -> Any:
    """Compute the remainder of the quotient towards zero; of integers by zero it is 0."""
    if not op.computes_integers:
        return a.xp.fmod(x, y)
    return a.xp.where(y == 0, 0, a.xp.fmod(x, a.xp.where(y == 0, 1, y)))


def _remainder(a: Arrays, op: e.RemainderOp, x: Any, y: Any) -> Any:
    """Compute the remainder with the sign of the divisor; of integers by zero it is 0."""
    rest = _fmod(a, op, x, y)
    return a.xp.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _floor_divide(a: Arrays, op: e.FloorDivideOp, x: Any, y: Any) -> Any:
    """Compute the quotient, rounded down; of integers by zero it is 0."""
    if not op.computes_integers:
        return a.xp.floor_divide(x, y)
    return a.xp.where(y == 0, 0, a.xp.floor_divide(x, a.xp.where(y == 0, 1, y)))


def _left_shift(a: Arrays, x: Any, y: Any) -> Any:
    return a.xp.where((y >= 0) & (y < 32), x << a.xp.clip(y, 0, 31), 0)


def _right_shift(a: Arrays, x: Any, y: Any) -> Any:
    return x >> a.xp.where((y >= 0) & (y < 32), y, 31)


def _compare(op: e.CmpOp, x: Any, y: Any) -> Any:
    match op.relation.data:
        case e.Relation.LT:
            return x < y
        case e.Relation.LE:
            return x <= y
        case e.Relation.GT:
            return x > y
        case e.Relation.GE:
            return x >= y
        case e.Relation.EQ:
            return x == y
        case e.Relation.NE:
            return x != y


def _cast(a: Arrays, op: ConversionOp, x: Any) -> Any:
    """Round to the dtype of the cast; a cast from bf16 or f16 to f32 rounds nothing."""
    if op.element_type == f32 and Shaped.of(op.operand.type).element_type in rules.HALVES:
        return x
    return a.round_to(a.float64(x), dtype_name(op.element_type))


RULES: dict[type[Operation], Rule] = {
    e.AddOp: lambda a, op, v: v[0] + v[1],
    e.SubOp: lambda a, op, v: v[0] - v[1],
    e.MulOp: lambda a, op, v: v[0] * v[1],
    e.DivOp: lambda a, op, v: v[0] / v[1],
    e.MinOp: lambda a, op, v: a.xp.minimum(v[0], v[1]),
    e.MaxOp: lambda a, op, v: a.xp.maximum(v[0], v[1]),
    e.PowOp: lambda a, op, v: _power(a, op, v[0], v[1]),
    e.RemainderOp: lambda a, op, v: _remainder(a, op, v[0], v[1]),
    e.FmodOp: lambda a, op, v: _fmod(a, op, v[0], v[1]),
    e.FloorDivideOp: lambda a, op, v: _floor_divide(a, op, v[0], v[1]),
    e.NegOp: lambda a, op, v: -v[0],
    e.AbsOp: lambda a, op, v: a.xp.abs(v[0]),
    e.SignOp: lambda a, op, v: _sign(a, v[0]),
    e.FloorOp: lambda a, op, v: a.xp.floor(v[0]),
    e.CeilOp: lambda a, op, v: a.xp.ceil(v[0]),
    e.RoundOp: lambda a, op, v: a.xp.round(v[0]),
    e.TruncOp: lambda a, op, v: a.xp.trunc(v[0]),
    e.ExpOp: lambda a, op, v: a.xp.exp(v[0]),
    e.Expm1Op: lambda a, op, v: a.xp.expm1(v[0]),
    e.Log1pOp: lambda a, op, v: a.xp.log1p(v[0]),
    e.LogOp: lambda a, op, v: a.xp.log(v[0]),
    e.SqrtOp: lambda a, op, v: a.xp.sqrt(v[0]),
    e.RsqrtOp: lambda a, op, v: 1 / a.xp.sqrt(v[0]),
    e.SinOp: lambda a, op, v: a.xp.sin(v[0]),
    e.CosOp: lambda a, op, v: a.xp.cos(v[0]),
    e.TanOp: lambda a, op, v: a.xp.tan(v[0]),
    e.Atan2Op: lambda a, op, v: a.xp.arctan2(v[0], v[1]),
    e.TanhOp: lambda a, op, v: a.xp.tanh(v[0]),
    e.ErfOp: lambda a, op, v: a.erf(v[0]),
    e.SigmoidOp: lambda a, op, v: _sigmoid(a, v[0]),
    e.GeluOp: lambda a, op, v: _gelu(a, op, v[0]),
    e.SoftplusOp: lambda a, op, v: _softplus(a, v[0], op.beta.value.data),
    e.ReluOp: lambda a, op, v: a.xp.maximum(v[0], a.xp.zeros_like(v[0])),
    e.LeakyReluOp: lambda a, op, v: a.xp.where(v[0] > 0, v[0], op.slope.value.data * v[0]),
    e.EluOp: lambda a, op, v: _elu(a, v[0], op.alpha.value.data),
    e.SeluOp: lambda a, op, v: SELU_SCALE * _elu(a, v[0], SELU_ALPHA),
    e.SiluOp: lambda a, op, v: v[0] * _sigmoid(a, v[0]),
    e.SoftsignOp: lambda a, op, v: v[0] / (1 + a.xp.abs(v[0])),
    e.MishOp: lambda a, op, v: v[0] * a.xp.tanh(_softplus(a, v[0], 1.0)),
    e.HardsigmoidOp: lambda a, op, v: _clip(a, v[0] / 6 + 0.5, 0.0, 1.0),
    e.HardswishOp: lambda a, op, v: v[0] * _clip(a, v[0] / 6 + 0.5, 0.0, 1.0),
    e.HardtanhOp: lambda a, op, v: _clip(a, v[0], op.lo.value.data, op.hi.value.data),
    e.ClampOp: lambda a, op, v: a.xp.minimum(a.xp.maximum(v[0], v[1]), v[2]),
    e.CmpOp: lambda a, op, v: _compare(op, v[0], v[1]),
    e.AndOp: lambda a, op, v: v[0] & v[1],
    e.OrOp: lambda a, op, v: v[0] | v[1],
    e.NotOp: lambda a, op, v: ~v[0],
    e.SelectOp: lambda a, op, v: a.xp.where(v[0], v[1], v[2]),
    e.BitwiseAndOp: lambda a, op, v: v[0] & v[1],
    e.BitwiseOrOp: lambda a, op, v: v[0] | v[1],
    e.BitwiseXorOp: lambda a, op, v: v[0] ^ v[1],
    e.BitwiseNotOp: lambda a, op, v: ~v[0],
    e.LeftShiftOp: lambda a, op, v: _left_shift(a, v[0], v[1]),
    e.RightShiftOp: lambda a, op, v: _right_shift(a, v[0], v[1]),
    e.CastOp: lambda a, op, v: _cast(a, op, v[0]),
    e.RetypeOp: lambda a, op, v: v[0],
    e.StoredOp: lambda a, op, v: _cast(a, op, v[0]),
}
"""The function that computes each elementwise op from its operands' values."""
