"""Lower ATen's elementwise operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.types import Shaped
from mucc.runtime.prepared import unpacked
from mucc.torch.importer.lowering import (
    FLOATS,
    LOWERINGS,
    MU_DTYPES,
    Builder,
    Built,
    Unsupported,
    aten,
    dtype_of,
    lowers,
    prims,
)

_UNARY: dict[str, Callable[..., Operation]] = {
    "abs": e.AbsOp,
    "ceil": e.CeilOp,
    "cos": e.CosOp,
    "erf": e.ErfOp,
    "exp": e.ExpOp,
    "expm1": e.Expm1Op,
    "floor": e.FloorOp,
    "hardsigmoid": e.HardsigmoidOp,
    "hardswish": e.HardswishOp,
    "log": e.LogOp,
    "log1p": e.Log1pOp,
    "mish": e.MishOp,
    "neg": e.NegOp,
    "relu": e.ReluOp,
    "round": e.RoundOp,
    "rsqrt": e.RsqrtOp,
    "selu": e.SeluOp,
    "sigmoid": e.SigmoidOp,
    "sign": e.SignOp,
    "silu": e.SiluOp,
    "sin": e.SinOp,
    "sqrt": e.SqrtOp,
    "tan": e.TanOp,
    "tanh": e.TanhOp,
    "trunc": e.TruncOp,
}


def _unary(cls: Callable[..., Operation]) -> Callable[..., Built]:
    def build(b: Builder, x: Any) -> Built:
        return b.call(cls, x)

    return build


for _name, _cls in _UNARY.items():
    LOWERINGS[getattr(aten, _name).default] = _unary(_cls)


def _counted(b: Builder, operand: Any) -> Any:
    """Return an operand of arithmetic: a bool as 0 or 1 where the result is a number."""
    if not isinstance(operand, SSAValue):
        return operand
    value = b.value(operand)
    if dtype_of(value) != "bool" or b.result.dtype == "bool":
        return value
    return b.cast(value, MU_DTYPES[b.result.dtype] if b.result.is_float else "s32")


def _binary(cls: Callable[..., Operation]) -> Callable[..., Built]:
    def build(b: Builder, x: Any, y: Any) -> Built:
        if b.result.dtype == "bool":
            return b.call(_OF_BOOLS[cls], as_bool(b, x), as_bool(b, y))
        return b.call(cls, _counted(b, x), _counted(b, y))

    return build


_OF_BOOLS: dict[Callable[..., Operation], Callable[..., Operation]] = {
    e.MulOp: e.AndOp,
    e.MinOp: e.AndOp,
    e.MaxOp: e.OrOp,
}
"""What arithmetic on bools is."""

for _overload, _cls in (
    (aten.mul.Tensor, e.MulOp),
    (aten.mul.Scalar, e.MulOp),
    (aten.maximum.default, e.MaxOp),
    (aten.minimum.default, e.MinOp),
    (aten.pow.Tensor_Tensor, e.PowOp),
    (aten.atan2.default, e.Atan2Op),
):
    LOWERINGS[_overload] = _binary(_cls)


@lowers(aten.div.Tensor, aten.div.Scalar)
def quotient(b: Builder, x: Any, y: Any) -> Built:
    """`x / y`, which is a float where both are integers."""
    values = [b.value(_counted(b, v)) for v in (x, y)]
    return b.call(e.DivOp, *(b.cast(v, "f32") if dtype_of(v) == "s32" else v for v in values))


def _scaled(b: Builder, value: Any, alpha: float) -> SSAValue:
    return b.value(value) if alpha == 1 else b.call(e.MulOp, value, alpha)


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(b: Builder, x: Any, y: Any, alpha: float = 1) -> Built:
    if b.result.dtype == "bool":
        return b.call(e.OrOp, as_bool(b, x), as_bool(b, y)) if alpha else as_bool(b, x)
    return b.call(e.AddOp, _counted(b, x), _scaled(b, _counted(b, y), alpha))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(b: Builder, x: Any, y: Any, alpha: float = 1) -> Built:
    return b.call(e.SubOp, _counted(b, x), _scaled(b, _counted(b, y), alpha))


@lowers(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(b: Builder, x: Any, y: Any, alpha: float = 1) -> Built:
    return b.call(e.SubOp, _counted(b, y), _scaled(b, _counted(b, x), alpha))


@lowers(aten.reciprocal.default)
def reciprocal(b: Builder, x: Any) -> Built:
    root = x.owner if isinstance(x, SSAValue) else None
    return b.call(e.RsqrtOp, root.operands[0]) if isinstance(root, e.SqrtOp) else quotient(b, 1.0, x)


@lowers(aten.atan.default)
def atan(b: Builder, x: Any) -> Built:
    return b.call(e.Atan2Op, x, 1.0)


@lowers(aten.asin.default)
def asin(b: Builder, x: Any) -> Built:
    return b.call(e.Atan2Op, x, _other_leg(b, x))


@lowers(aten.acos.default)
def acos(b: Builder, x: Any) -> Built:
    return b.call(e.Atan2Op, _other_leg(b, x), x)


def _halves(b: Builder, x: Any) -> tuple[SSAValue, SSAValue]:
    """`sinh(x / 2)` and `cosh(x / 2)`, both doubled: they are accurate near 0, and do not overflow early."""
    half = b.call(e.MulOp, x, 0.5)
    up, down = b.call(e.Expm1Op, half), b.call(e.Expm1Op, b.call(e.NegOp, half))
    return b.call(e.SubOp, up, down), b.call(e.AddOp, b.call(e.AddOp, up, down), 2.0)


@lowers(aten.sinh.default)
def sinh(b: Builder, x: Any) -> Built:
    odd, even = _halves(b, x)
    return b.call(e.MulOp, b.call(e.MulOp, odd, 0.5), even)


@lowers(aten.cosh.default)
def cosh(b: Builder, x: Any) -> Built:
    _, even = _halves(b, x)
    return b.call(e.SubOp, b.call(e.MulOp, b.call(e.MulOp, even, 0.5), even), 1.0)


_FAR = 1e4
"""From here on `sqrt(x² ± 1)` is x in f32. Squares do not overflow before."""


def _area(b: Builder, size: Any, near: SSAValue) -> SSAValue:
    """Return `near` for small sizes, and their limit `log(2 size)` for others, where squares may overflow."""
    is_far = b.add(e.CmpOp("gt", b.value(size), b.number(_FAR)))
    return b.call(e.SelectOp, is_far, b.call(e.AddOp, b.call(e.LogOp, size), math.log(2.0)), near)


@lowers(aten.asinh.default)
def asinh(b: Builder, x: Any) -> Built:
    size = b.call(e.AbsOp, x)
    square = b.call(e.MulOp, size, size)
    root = b.call(e.AddOp, b.call(e.SqrtOp, b.call(e.AddOp, square, 1.0)), 1.0)
    grown = b.call(e.AddOp, size, b.call(e.DivOp, square, root))
    value = _area(b, size, b.call(e.Log1pOp, grown))
    below, above = (b.add(e.CmpOp(relation, b.value(x), b.number(0))) for relation in ("lt", "gt"))
    near = b.call(e.SelectOp, below, b.call(e.NegOp, value), x)  # a zero keeps its sign
    return b.call(e.SelectOp, above, value, near)


@lowers(aten.acosh.default)
def acosh(b: Builder, x: Any) -> Built:
    rest = b.call(e.SubOp, x, 1.0)
    root = b.call(e.MulOp, b.call(e.SqrtOp, rest), b.call(e.SqrtOp, b.call(e.AddOp, x, 1.0)))
    return _area(b, x, b.call(e.Log1pOp, b.call(e.AddOp, rest, root)))


@lowers(aten.atanh.default)
def atanh(b: Builder, x: Any) -> Built:
    difference = b.call(e.SubOp, b.call(e.Log1pOp, x), b.call(e.Log1pOp, b.call(e.NegOp, x)))
    return b.call(e.MulOp, difference, 0.5)


@lowers(aten.exp2.default)
def exp2(b: Builder, x: Any) -> Built:
    return b.call(e.PowOp, 2.0, x)


def _other_leg(b: Builder, x: Any) -> SSAValue:
    """`sqrt(1 - x²)`, accurate near 1; NaN outside of [-1, 1]."""
    square = b.call(e.MulOp, b.call(e.SubOp, 1.0, x), b.call(e.AddOp, 1.0, x))
    return b.call(e.SqrtOp, square)


@lowers(aten.frac.default)
def frac(b: Builder, x: Any) -> Built:
    return b.call(e.SubOp, x, b.call(e.TruncOp, x))


@lowers(aten.pow.Tensor_Scalar)
def power(b: Builder, x: Any, exponent: float) -> Built:
    match exponent:
        case 1:
            return b.value(x)
        case 2:
            return b.call(e.MulOp, x, x)
        case 3:
            return b.call(e.MulOp, b.call(e.MulOp, x, x), x)
        case 0.5:
            return b.call(e.SqrtOp, x)
        case -0.5:  # not as pow has it: NaN for -inf, -inf for -0
            return b.call(e.RsqrtOp, x)
        case _:
            return b.call(e.PowOp, x, exponent)


@lowers(aten.pow.Scalar)
def power_of(b: Builder, base: float, exponent: Any) -> Built:
    value = b.value(_counted(b, exponent))
    return b.call(e.PowOp, base, b.cast(value, "f32") if dtype_of(value) == "s32" else value)


@lowers(aten.clamp.default, aten.clamp.Tensor)
def clamp(b: Builder, x: Any, lo: Any = None, hi: Any = None) -> Built:
    if lo is None:
        return b.call(e.MinOp, x, hi)
    if hi is None:
        return b.call(e.MaxOp, x, lo)
    return b.call(e.ClampOp, x, lo, hi)


@lowers(aten.hardtanh.default)
def hardtanh(b: Builder, x: Any, lo: float = -1.0, hi: float = 1.0) -> Built:
    return b.call(e.HardtanhOp, x, lo=lo, hi=hi)


@lowers(aten.clamp_min.default)
def clamp_min(b: Builder, x: Any, lo: Any) -> Built:
    return b.call(e.MaxOp, x, lo)


@lowers(aten.clamp_max.default)
def clamp_max(b: Builder, x: Any, hi: Any) -> Built:
    return b.call(e.MinOp, x, hi)


@lowers(aten.gelu.default)
def gelu(b: Builder, x: Any, approximate: str = "none") -> Built:
    return b.call(e.GeluOp, x, approximate=approximate)


@lowers(aten.softplus.default)
def softplus(b: Builder, x: Any, beta: float = 1, threshold: float = 20) -> Built:
    # Above the threshold torch gives x, which the formula gives too, within a rounding of f32.
    if threshold < 16:
        raise Unsupported(f"softplus with the threshold {threshold}")
    return b.call(e.SoftplusOp, x, beta=beta)


@lowers(aten.leaky_relu.default)
def leaky_relu(b: Builder, x: Any, slope: float = 0.01) -> Built:
    return b.call(e.LeakyReluOp, x, slope=slope)


@lowers(aten.elu.default)
def elu(b: Builder, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Built:
    if input_scale != 1:
        raise Unsupported("elu with an input scale")
    value = b.call(e.EluOp, x, alpha=alpha)
    return value if scale == 1 else b.call(e.MulOp, value, scale)


_RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _compare(relation: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, y: Any) -> Built:
        operands = [b.value(o) for o in (x, y)]
        counted = [b.cast(o, "f32") if dtype_of(o) == "bool" else o for o in operands]
        return b.add(e.CmpOp(relation, *counted))

    return build


for _name in _RELATIONS:
    for _kind in ("Scalar", "Tensor"):
        LOWERINGS[getattr(getattr(aten, _name), _kind)] = _compare(_name)


def as_bool(b: Builder, x: Any) -> SSAValue:
    """Return a value as a condition; a number holds if it is not zero."""
    value = b.value(x)
    if Shaped.of(value.type).element_type == i1:
        return value
    return b.add(e.CmpOp("ne", value, b.number(0)))


@lowers(aten.logical_not.default)
def logical_not(b: Builder, x: Any) -> Built:
    return b.call(e.NotOp, as_bool(b, x))


@lowers(aten.logical_and.default)
def logical_and(b: Builder, x: Any, y: Any) -> Built:
    return b.call(e.AndOp, as_bool(b, x), as_bool(b, y))


@lowers(aten.logical_or.default)
def logical_or(b: Builder, x: Any, y: Any) -> Built:
    return b.call(e.OrOp, as_bool(b, x), as_bool(b, y))


@lowers(aten.logical_xor.default)
def logical_xor(b: Builder, x: Any, y: Any) -> Built:
    p, q = as_bool(b, x), as_bool(b, y)
    return b.call(e.AndOp, b.call(e.OrOp, p, q), b.call(e.NotOp, b.call(e.AndOp, p, q)))


@lowers(aten.where.self)
def where(b: Builder, condition: Any, x: Any, y: Any) -> Built:
    chosen = as_bool(b, condition)
    if b.result.dtype != "bool":
        return b.call(e.SelectOp, chosen, _counted(b, x), _counted(b, y))
    first, second = (b.add(e.AndOp(c, as_bool(b, v))) for c, v in ((chosen, x), (b.call(e.NotOp, chosen), y)))
    return b.call(e.OrOp, first, second)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(b: Builder, x: Any, mask: Any, value: Any) -> Built:
    return where(b, mask, value, x)


@lowers(aten.isnan.default)
def isnan(b: Builder, x: Any) -> Built:
    return b.add(e.CmpOp("ne", x, x))


@lowers(aten.isinf.default)
def isinf(b: Builder, x: Any) -> Built:
    return b.add(e.CmpOp("eq", b.call(e.AbsOp, x), b.number(math.inf)))


def _but_nan(cls: Callable[..., Operation]) -> Callable[..., Built]:
    """Return the larger or smaller number; the other one where one is NaN."""

    def build(b: Builder, x: Any, y: Any) -> Built:
        either = b.call(e.SelectOp, isnan(b, y), x, b.call(cls, x, y))
        return b.call(e.SelectOp, isnan(b, x), y, either)

    return build


LOWERINGS[aten.fmax.default] = _but_nan(e.MaxOp)
LOWERINGS[aten.fmin.default] = _but_nan(e.MinOp)


@lowers(
    aten.to.dtype,
    aten._to_copy.default,
    aten.to.dtype_layout,
    prims.convert_element_type.default,
)
def convert(b: Builder, x: Any, *args: Any, **options: Any) -> Built:
    value, dtype = b.value(x), b.result.dtype
    if dtype not in MU_DTYPES:
        raise Unsupported(f"mu has no {dtype}")
    if dtype == "bool":
        return as_bool(b, value)
    if dtype not in FLOATS and dtype_of(value) not in ("bool", MU_DTYPES[dtype]):
        if dtype != "int32" or dtype_of(value) not in FLOATS.values():
            raise Unsupported(f"a conversion to {dtype}, which torch rounds towards zero")
        value = b.call(e.TruncOp, value)
    return b.cast(value, MU_DTYPES[dtype])


@lowers(unpacked)
def convert_packed(b: Builder, x: Any, signed: bool, dtype: Any) -> Built:
    return convert(b, x)


@lowers(aten.copy.default)
def copy(b: Builder, x: Any, source: Any, non_blocking: bool = False) -> Built:
    """Return `source` in the dtype of `x`; `fitted` gives it the shape."""
    return convert(b, source)


@lowers(
    aten.clone.default,
    aten.contiguous.default,
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
)
def same(b: Builder, x: Any, **options: Any) -> Built:
    return b.value(x)


_RANDOM = "random numbers: they come from torch's generator"


@lowers(aten.dropout.default)
def dropout(b: Builder, x: Any, p: float, train: bool) -> Built:
    if train and p > 0:
        raise Unsupported(_RANDOM)
    return b.value(x)


@lowers(aten.native_dropout.default)
def native_dropout(b: Builder, x: Any, p: float, train: bool | None) -> Built:
    if train is not False and p > 0:
        raise Unsupported(_RANDOM)
    return b.value(x), None
