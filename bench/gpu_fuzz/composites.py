"""Draft views, norms, and gathers and scatters of rows, each with its reference in PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.drafts import Dim, Dims, Draft, Env, Expr, Param, shape_of
from bench.gpu_fuzz.pointwise import (
    ADD,
    binary,
)
from bench.gpu_fuzz.reference import Bounded

FLOATS = ("bf16", "bf16", "f16", "f32", "f32")
"""Dtypes of tensors, the frequent ones twice."""

torch: Any = ref.torch


def swapped(y: Expr) -> Callable[[Env], Bounded]:
    return lambda env: Bounded(*(t.mT for t in y.value(env)))


def with_axis(y: Expr, place: int) -> Expr:
    """A value with an axis of extent 1 more."""
    index = [":"] * len(y.dims)
    index.insert(place, "None")
    text = y.text if re.fullmatch(r"\w+(\.T)?", y.text) else f"({y.text})"
    dims = (*y.dims[:place], 1, *y.dims[place:])

    def compute(env: Env) -> Bounded:
        return Bounded(*(t.unsqueeze(place) for t in y.value(env)))

    return Expr(f"{text}[{', '.join(index)}]", y.dtype, dims, compute)


def gathered(d: Draft, x: Expr, dims: Dims) -> Expr:
    rows = d.name("rows")
    d.add(Param(rows, f"{rows}: s32[{', '.join(map(str, dims))}]", "s32", "index"))

    def compute(env: Env) -> Bounded:
        index = env.inputs[rows].value.long()
        return Bounded(*(t[index] for t in x.value(env)))

    return Expr(f"gather({x.text}, {rows})", x.dtype, (*dims, *x.dims[1:]), compute)


def taken_along(d: Draft, x: Expr, dims: Dims, axis: int) -> Expr:
    """Take elements along an axis by an index of the given dims."""
    index = d.name("index")
    d.add(Param(index, f"{index}: s32[{', '.join(map(str, dims))}]", "s32", "index"))

    def compute(env: Env) -> Bounded:
        numbers = env.inputs[index].value.long()
        return env.passed(Bounded(*(t.gather(axis, numbers) for t in x.value(env))), x.dtype)

    return Expr(f"take_along({x.text}, {index}, axis={axis})", x.dtype, dims, compute)


def pooled(d: Draft, x: Expr) -> Expr:
    """Pool over the axes of x behind the first two, whose extents are numbers or bound dims."""
    extents = [n if isinstance(n, int) else d.dims[n] or 0 for n in x.dims[2:]]
    is_max, ceil, count_pad = d.c.chance(1, 2), d.c.chance(1, 3), d.c.chance(1, 2)
    windows = [_window(d, extent, dilated=is_max) for extent in extents]
    size, stride, pad, dilation = (list(numbers) for numbers in zip(*windows, strict=True))
    texts = [f"{name}={_numbers(n)}" for name, n in (("size", size), ("stride", stride), ("pad", pad))]
    texts += [f"dilation={_numbers(dilation)}"] if is_max else [] if count_pad else ["count_pad=off"]
    text = f"{'max' if is_max else 'avg'}_pool({x.text}, {', '.join(texts)}{', ceil=on' * ceil})"

    def compute(value: Bounded) -> Bounded:
        taps = dilation if is_max else None
        return ref.pool(value, len(extents), size, stride, pad, taps, ceil=ceil, count_pad=count_pad)

    shape = compute(ref.exact(torch.zeros((1, 1, *extents)))).value.shape
    dims = (*x.dims[:2], *(int(n) for n in shape[2:]))
    return Expr(text, x.dtype, dims, lambda env: env.passed(compute(x.value(env)), x.dtype))


def _window(d: Draft, extent: int, *, dilated: bool) -> tuple[int, int, int, int]:
    """Draw size, stride, pad and dilation of a window that fits an extent."""
    size, pad, dilation = 1 + d.c.number(min(extent, 8)), 0, 1
    if d.c.chance(1, 2):
        pad = d.c.number(size // 2 + 1)
    if dilated and size > 1 and d.c.chance(1, 3):
        dilation = 1 + d.c.number(max((extent + 2 * pad - 1) // (size - 1), 1))
    return size, d.c.pick((size, 1, 2, 3)), pad, dilation


def _numbers(numbers: list[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else f"({', '.join(map(str, numbers))})"


def in_order(d: Draft, x: Expr, axis: int, count: int | None, *, positions: bool = False) -> Expr:
    """Sort along an axis, or take the `count` largest elements; with `positions` say where they come from."""
    falling = count is not None or d.c.chance(1, 2)
    name = f"{'arg' if positions else ''}{'sort' if count is None else 'topk'}"
    options = f", {count}" if count is not None else ", descending=on" if falling else ""
    dims = x.dims if count is None else (*x.dims[:axis], count, *x.dims[axis + 1 :])

    def compute(env: Env) -> Bounded:
        value = x.value(env).value
        places = torch.argsort(value, dim=axis, descending=falling, stable=True).narrow(
            axis, 0, count or value.shape[axis]
        )
        if positions:
            return ref.exact(places.double())
        return Bounded(*(t.gather(axis, places) for t in x.value(env)))

    return Expr(f"{name}({x.text}{options}, axis={axis})", "s32" if positions else x.dtype, dims, compute)


def scattered(d: Draft, y: Expr, rows: Dim) -> None:
    """Return a value whose rows are stored where an index says, in more rows."""
    total = d.dim("U", (600, 513, 1000), may_be_number=False)
    assert isinstance(total, str)
    # An extent of a result alone: a parameter has to tell it.
    extra = d.tensor((total, y.dims[-1]), "f32", stem="m")
    d.promises.append(f"{total} >= {rows}")
    index = d.name("to")
    d.add(Param(index, f"{index}: s32[{rows}]", "s32", "index"))

    def compute(env: Env) -> Bounded:
        places = env.inputs[index].value.long()
        made: list[Any] = []
        for part in y.value(env):
            spread = torch.zeros(shape_of(env, (total, y.dims[-1])), dtype=torch.float64, device=part.device)
            spread[places] = part
            made.append(spread)
        return Bounded(*made)

    stored = Expr(f"scatter({y.text}, {index}, {total})", y.dtype, (total, y.dims[-1]), compute)
    if d.c.chance(1, 2):
        stored = binary(ADD, stored, extra, stored.dims)
        d.result(stored, "f32")
    else:
        d.result(stored, y.dtype)
        d.result(extra, "f32")


def cast_to(y: Expr, dtype: str) -> Expr:
    return Expr(f"cast({y.text}, {dtype})", dtype, y.dims, lambda env: ref.rounded(y.value(env), dtype))


def kept_over(d: Draft, y: Expr, kind: str, axis: int = -1) -> Expr:
    """A reduction over an axis, by default the last one, which is kept."""

    def compute(env: Env) -> Bounded:
        return ref.reduce(kind, env.passed(y.value(env), y.dtype), (axis,), True)

    dims = list(y.dims)
    dims[axis] = 1
    return Expr(f"{kind}({y.text}, axis={axis}, keepdims=on)", "f32", tuple(dims), compute)


def softmax(d: Draft, y: Expr, axis: int, logarithm: bool = False) -> Expr:
    """softmax or log_softmax."""

    def compute(env: Env) -> Bounded:
        x = env.passed(y.value(env), y.dtype)
        shifted = ref.apply(torch.sub, x, Bounded(x.value.amax(axis, True), 0 * x.error.amax(axis, True)))
        powers = ref.apply(torch.exp, shifted, relative=RELATIVE)
        total = ref.reduce("sum", powers, (axis,), True)
        if logarithm:
            result = ref.apply(_less_logarithm, shifted, total, absolute=1e-6, relative=RELATIVE)
        else:
            result = ref.apply(torch.div, powers, total, relative=RELATIVE)
        return env.passed(result, floating(y))

    name = "log_softmax" if logarithm else "softmax"
    return Expr(f"{name}({y.text}, axis={axis})", floating(y), y.dims, compute)


RELATIVE = 1e-5


def _less_logarithm(x: Any, total: Any) -> Any:
    return x - total.log()


def _over_root(x: Any, squares: Any) -> Any:
    return x * (squares + 1e-5).rsqrt()


def floating(y: Expr) -> str:
    return y.dtype if y.dtype in ("bf16", "f16") else "f32"


def norm(d: Draft, y: Expr, kind: str, axes: tuple[int, ...] = (-1,)) -> Expr:
    """layer_norm or rms_norm over some axes, by default the last one."""

    def compute(env: Env) -> Bounded:
        x = env.passed(y.value(env), y.dtype)
        if kind == "layer_norm":
            x = ref.apply(torch.sub, x, ref.reduce("mean", x, axes, True), absolute=1e-6)
        squares = ref.reduce("mean", ref.apply(torch.square, x), axes, True)
        result = ref.apply(_over_root, x, squares, relative=RELATIVE)
        return env.passed(result, floating(y))

    over = "" if axes == (-1,) else f", axis={axes}"
    return Expr(f"{kind}({y.text}{over})", floating(y), y.dims, compute)
