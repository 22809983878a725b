"""Lower ATen's reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, VarianceOp
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.library.extents import multiply
from mucc.torch.importer.aten_pointwise import as_bool
from mucc.torch.importer.lowering import (
    EXACT,
    LOWERINGS,
    Builder,
    Built,
    Unsupported,
    aten,
    axis_of,
    dims_of,
    dtype_of,
    fixed,
    lowers,
)

Axes = Sequence[int] | int | None


def axes_of(x: SSAValue, axes: Axes) -> list[int]:
    """Axes counted from the front; all where none is named."""
    rank = len(dims_of(x))
    if axes is None or (not isinstance(axes, int) and not axes):
        return list(range(rank))
    return sorted(axis_of(a, rank) for a in ([axes] if isinstance(axes, int) else axes))


def reduced(b: Builder, kind: str, x: Any, axes: Axes = None, keepdim: bool = False) -> SSAValue:
    """Reduce over axes, which stay with extent 1 if `keepdim`."""
    value = b.value(x)
    if dtype_of(value) in ("s32", "u8", "s8") and kind not in ("max", "min"):
        raise Unsupported(f"{kind} of integers")
    is_count = dtype_of(value) == "bool" and kind not in ("any", "all")
    if is_count:
        value = b.cast(value, "f32")
    positions = axes_of(value, axes)
    if dims_of(value):
        value = b.keep(b.add(ReduceOp(kind, value, positions)), positions, keepdim)
    if not is_count or b.result.is_float:
        return value
    if math.prod(fixed(d) for d in dims_of(x)) > EXACT:
        raise Unsupported("counts beyond 2²⁴")
    return b.cast(value, "s32")


def _reduction(kind: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, axes: Axes = None, keepdim: bool = False, **options: Any) -> Built:
        return reduced(b, kind, x, axes, keepdim)

    return build


for _overload, _kind in (
    (aten.sum.dim_IntList, "sum"),
    (aten.mean.dim, "mean"),
    (aten.amax.default, "max"),
    (aten.amin.default, "min"),
    (aten.prod.dim_int, "prod"),
):
    LOWERINGS[_overload] = _reduction(_kind)


def _whole(kind: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, **options: Any) -> Built:
        return reduced(b, kind, x)

    return build


for _name, _kind in (("sum", "sum"), ("mean", "mean"), ("max", "max"), ("min", "min"), ("prod", "prod")):
    LOWERINGS[getattr(aten, _name).default] = _whole(_kind)


def _condition(kind: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, axes: Axes = None, keepdim: bool = False) -> Built:
        return reduced(b, kind, as_bool(b, x), axes, keepdim)

    return build


for _name in ("any", "all"):
    for _kind in ("default", "dim", "dims"):
        LOWERINGS[getattr(getattr(aten, _name), _kind)] = _condition(_name)


def arg_reduced(b: Builder, kind: str, x: Any, axis: int, keepdim: bool = False) -> SSAValue:
    """Where the largest or smallest element along an axis is."""
    value = b.value(x)
    position = axis_of(axis, len(dims_of(value)))
    return b.keep(b.add(ArgReduceOp(kind, value, position)), [position], keepdim)


def _arg(kind: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, axis: int | None = None, keepdim: bool = False) -> Built:
        rank = len(dims_of(x))
        if axis is not None or rank <= 1:
            return arg_reduced(b, kind, x, axis or 0, keepdim)
        flat = b.add(ReshapeOp(b.value(x), (multiply(dims_of(x)),)))
        return b.keep(arg_reduced(b, kind, flat, 0), list(range(rank)), keepdim)

    return build


LOWERINGS[aten.argmax.default] = _arg("argmax")
LOWERINGS[aten.argmin.default] = _arg("argmin")


def _with_places(kind: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, axis: int, keepdim: bool = False) -> Built:
        return reduced(b, kind, x, axis, keepdim), arg_reduced(b, f"arg{kind}", x, axis, keepdim)

    return build


LOWERINGS[aten.max.dim] = _with_places("max")
LOWERINGS[aten.min.dim] = _with_places("min")


def variance(b: Builder, x: Any, axes: Axes, correction: float, keepdim: bool) -> SSAValue:
    """Compute the variance over axes; `correction` is 1 for the unbiased one."""
    value = b.value(x)
    positions = axes_of(value, axes)
    return b.keep(b.add(VarianceOp(value, positions, correction)), positions, keepdim)


@lowers(aten.var.correction)
def var(
    b: Builder, x: Any, axes: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Built:
    return variance(b, x, axes, 1 if correction is None else correction, keepdim)


@lowers(aten.std.correction)
def std(
    b: Builder, x: Any, axes: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Built:
    return b.call(e.SqrtOp, variance(b, x, axes, 1 if correction is None else correction, keepdim))


@lowers(aten.var_mean.correction)
def var_mean(
    b: Builder, x: Any, axes: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Built:
    value = variance(b, x, axes, 1 if correction is None else correction, keepdim)
    return value, reduced(b, "mean", x, axes, keepdim)


@lowers(aten.linalg_vector_norm.default)
def vector_norm(
    b: Builder, x: Any, order: float = 2, axes: Axes = None, keepdim: bool = False, **options: Any
) -> Built:
    if order == 2:
        return b.call(e.SqrtOp, reduced(b, "sum", b.call(e.MulOp, x, x), axes, keepdim))
    if order == 0:
        return reduced(b, "sum", b.add(e.CmpOp("ne", b.value(x), b.number(0))), axes, keepdim)
    sizes = b.call(e.AbsOp, x)
    if order == 1:
        return reduced(b, "sum", sizes, axes, keepdim)
    if math.isinf(order):
        return reduced(b, "max" if order > 0 else "min", sizes, axes, keepdim)
    powers = reduced(b, "sum", b.call(e.PowOp, sizes, order), axes, keepdim)
    return b.call(e.PowOp, powers, 1 / order)
