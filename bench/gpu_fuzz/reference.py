"""The independent reference: float64 values in PyTorch, each with a bound on a right kernel's error.

A bound grows as the language allows: sums in f32 (or in fewer bits, as tensor cores form them), tf32
operands, values that are stored at their dtype between device kernels, and functions that are computed in
f32. Where no rounding is allowed the bound is 0. Bounds of sums are those of independent roundings, times a
factor that random data does not reach, since bounds that hold for all data would hide a missing element of
a long sum.

Nothing here uses the interpreters of mucc.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

torch: Any = importlib.import_module("torch")
Tensor = Any

F32 = 2.0**-23
"""Bound of the relative error of one operation in f32 that is within 1 ulp."""

APART = 8.0
"""How many standard deviations a sum of roundings may be off by."""


class Format(NamedTuple):
    """How numbers are stored: bits of mantissa, exponent of the smallest normal number, largest number."""

    mantissa: int
    exponent: int
    largest: float


FLOATS = {
    "f32": Format(23, -126, 3.4028234663852886e38),
    "bf16": Format(7, -126, 3.3895313892515355e38),
    "f16": Format(10, -14, 65504.0),
    "e4m3": Format(3, -6, 448.0),
    "e5m2": Format(2, -14, 57344.0),
}
INTEGERS = {"s4": (-8, 7), "u4": (0, 15), "s8": (-128, 127), "u8": (0, 255), "s32": (-(2**31), 2**31 - 1)}
SATURATING = ("e4m3", "e5m2")


class Bounded(NamedTuple):
    """Float64 values, and by how much each may be off.

    A value that is no number with an infinite error is unknown: anything may come, such as of infinity times
    what is 0 but for roundings. One with another error must be no number.
    """

    value: Tensor
    error: Tensor


def unknown(x: Bounded) -> Tensor:
    """Where anything may come."""
    return torch.isnan(x.value) & (x.error == math.inf)


def _with_unknown(value: Tensor, error: Tensor, where: Tensor) -> Bounded:
    """Values with bounds, of which some are unknown."""
    return Bounded(torch.where(where, math.nan, value), torch.where(where, math.inf, error))


def exact(value: Tensor) -> Bounded:
    """Values that nothing has rounded."""
    value = torch.as_tensor(value).to(torch.float64)
    return Bounded(value, torch.zeros_like(value))


def half_step(dtype: str, size: Tensor) -> Tensor:
    """Half the distance of neighbouring numbers of a dtype where numbers have this magnitude."""
    if dtype in INTEGERS:
        return torch.full_like(size, 0.5)
    form = FLOATS[dtype]
    exponent = torch.frexp(size.clamp(max=form.largest))[1] - 1
    return torch.ldexp(torch.ones_like(size), exponent.clamp(min=form.exponent) - form.mantissa - 1)


def rounded(x: Bounded, dtype: str) -> Bounded:
    """What a store at a dtype leaves, to nearest, ties to even."""
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        value = torch.where(torch.isnan(x.value), 0.0, x.value).round().clamp(low, high)
    elif dtype == "f32":
        value = x.value.to(torch.float32).to(torch.float64)
    else:
        kinds = {"bf16": torch.bfloat16, "f16": torch.float16}
        kinds |= {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
        single = x.value.to(torch.float32)
        if dtype in SATURATING:
            single = single.clamp(-FLOATS[dtype].largest, FLOATS[dtype].largest)
        value = single.to(kinds[dtype]).to(torch.float64)
    # A value that may be off may also round to the other side.
    step = 2 * half_step(dtype, x.value.abs() + x.error)
    return _with_unknown(value, torch.where(x.error > 0, x.error + step, x.error), unknown(x))


def maybe_rounded(x: Bounded, dtype: str) -> Bounded:
    """A value that may be stored at its dtype on the way, or may not."""
    if dtype in INTEGERS or dtype == "bool":
        return x
    return _with_unknown(x.value, x.error + half_step(dtype, x.value.abs() + x.error), unknown(x))


# Products


class Arithmetic(NamedTuple):
    """How a product is formed: what operands lose, and what sums lose: a constant, and a part by length."""

    operand: float
    base: float
    by_length: float
    by_root: float = 0.0


ARITHMETIC = {
    "exact": Arithmetic(0.0, 0.0, 0.0),
    "f32": Arithmetic(0.0, 2.0**-22, 2e-9),
    "16": Arithmetic(0.0, 2.0**-22, 1e-8),
    "tf32": Arithmetic(2.0**-10, 2.0**-22, 1e-8),
    "tf32x3": Arithmetic(2.0**-21, 2.0**-20, 2e-9),
    "8": Arithmetic(0.0, 2.0**-11, 0.0, 0.0),
    "8fast": Arithmetic(0.0, 2.0**-11, 0.0, 2.0**-14),
}
"""Figures of docs/accuracy.md, with room: relative to the root of the sum of squared products."""


def product(a: Bounded, b: Bounded, way: str) -> Bounded:
    """The matrix product over leading axes that broadcast."""
    how = ARITHMETIC[way]
    value = a.value @ b.value
    length = a.value.shape[-1]
    size_a, size_b = a.value.abs(), b.value.abs()
    spread = ((size_a * size_a) @ (size_b * size_b)).sqrt()
    error = _quadrature(a.error, size_b + b.error) + _quadrature(size_a, b.error)
    sums = how.base + how.by_length * length + how.by_root * math.sqrt(length)
    error = error + spread * (APART * sums + APART * how.operand)
    error = error + value.abs() * (2 * how.operand + (0.0 if way == "exact" else F32))
    lost = (unknown(a).any(-1)[..., :, None]) | (unknown(b).any(-2)[..., None, :])
    return _with_unknown(value, error, lost & torch.isnan(value))


def _quadrature(a: Tensor, b: Tensor) -> Tensor:
    """Errors of independent terms of a product, added as such; never above their plain sum."""
    if not bool((a != 0).any()) or not bool((b != 0).any()):
        return torch.zeros_like(a @ b)
    return torch.minimum(APART * ((a * a) @ (b * b)).sqrt(), a @ b)


# Pointwise work


def apply(
    function: Callable[..., Tensor], *xs: Bounded, absolute: float = 0.0, relative: float = 4 * F32
) -> Bounded:
    """A function of one or more values. Its error is what it makes of the ends of its arguments' bounds.

    Where these ends decide whether it is a number, or which infinity, it is unknown.
    """
    value = function(*(x.value for x in xs))
    error, lost = torch.zeros_like(value), torch.zeros_like(value, dtype=torch.bool)
    for i, x in enumerate(xs):
        lost = lost | (unknown(x) & torch.isnan(value))
        if bool((x.error != 0).any()):
            for sign in (-1.0, 1.0):
                moved = [y.value if j != i else y.value + sign * y.error for j, y in enumerate(xs)]
                end = function(*moved)
                error = error + 0.75 * (end - value).abs().nan_to_num(0.0, math.inf)
                lost = lost | (torch.isnan(value) & ~torch.isnan(end)) | (torch.isinf(end) & (end == -value))
    return _with_unknown(value, error + relative * value.abs() + absolute, lost)


def select(condition: Tensor, a: Bounded, b: Bounded) -> Bounded:
    """`where` with a condition that nothing has rounded."""
    return Bounded(torch.where(condition, a.value, b.value), torch.where(condition, a.error, b.error))


# Reductions


def reduce(
    kind: str, x: Bounded, axes: Sequence[int], keepdims: bool = False, *, integer: bool = False
) -> Bounded:
    """sum, mean, max, min or amax over axes, in f32 (integers exactly)."""
    axes = tuple(axes)
    value, error = x
    match kind:
        case "sum" | "mean":
            count = math.prod(value.shape[a] for a in axes)
            total = value.sum(axes, keepdim=keepdims)
            plain = error.sum(axes, keepdim=keepdims)
            spread = (error * error).sum(axes, keepdim=keepdims).sqrt()
            bound = torch.minimum(plain, APART * spread)
            if not integer:
                bound = bound + F32 * (2 + math.sqrt(count) / 8) * value.abs().sum(axes, keepdim=keepdims)
            scale = 1.0 / count if kind == "mean" else 1.0
            return _with_unknown(total * scale, bound * scale, _any_unknown(x, axes, keepdims))
        case "max":
            found = value.amax(axes, keepdim=keepdims)
        case "min":
            found = value.amin(axes, keepdim=keepdims)
        case "amax":
            found = value.abs().amax(axes, keepdim=keepdims)
        case _:
            raise KeyError(kind)
    return _with_unknown(found, error.amax(axes, keepdim=keepdims), _any_unknown(x, axes, keepdims))


def _any_unknown(x: Bounded, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Where a reduction is unknown: some elements are, and no other one makes it no number."""
    if not axes:
        return unknown(x)
    certain = torch.isnan(x.value) & ~unknown(x)
    return unknown(x).any(axes, keepdim=keepdims) & ~certain.any(axes, keepdim=keepdims)


def pool(
    x: Bounded,
    rank: int,
    size: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int] | None,
    *,
    ceil: bool,
    count_pad: bool,
) -> Bounded:
    """The largest element of each window over the last `rank` axes, or without `dilation` the mean."""
    functional = torch.nn.functional
    windows = (list(size), list(stride), list(pad))
    if dilation is not None:
        most = getattr(functional, f"max_pool{rank}d")
        value, error = (most(t, *windows, list(dilation), ceil) for t in x)
        return Bounded(value, error.clamp(min=0.0))  # of padding alone, -inf is exact
    mean = getattr(functional, f"avg_pool{rank}d")
    value, plain, sizes = (mean(t, *windows, ceil, count_pad) for t in (*x, x.value.abs()))
    return Bounded(value, plain + F32 * (2 + math.sqrt(math.prod(size)) / 8) * sizes)


SMALLEST = 2.0**-149
"""The smallest f32 above 0."""


def scan(x: Bounded, axis: int, *, product: bool, reverse: bool, exclusive: bool) -> Bounded:
    """Running sums or products along an axis, in f32. Products are of factors that are not near 0."""
    value, error = (t.flip(axis) if reverse else t for t in x)
    count = value.shape[axis]
    if product:
        found = value.cumprod(axis)
        bound = found.abs() * (2 * (error / value.abs()).cumsum(axis) + F32 * (2 + count))
        # Numbers below the normal ones are rounded to multiples of the smallest, at each step.
        size = found.abs().clamp_min(1e-300)
        bound = bound + SMALLEST * size * (1 / size).cumsum(axis)
    else:
        found = value.cumsum(axis)
        spread = (error * error).cumsum(axis).sqrt()
        bound = torch.minimum(error.cumsum(axis), APART * spread)
        bound = bound + F32 * (2 + math.sqrt(count) / 8) * value.abs().cumsum(axis)
    if exclusive:
        none = torch.zeros_like(value.narrow(axis, 0, 1))
        found = torch.cat((none + 1 if product else none, found.narrow(axis, 0, count - 1)), axis)
        bound = torch.cat((none, bound.narrow(axis, 0, count - 1)), axis)
    return Bounded(*(t.flip(axis) if reverse else t for t in (found, bound)))


def uniform(shape: Sequence[int], seed: int, stream: int) -> Tensor:
    """Uniform numbers by Philox4x32-10, as docs/language.md says of `random`."""
    count = math.prod(shape)
    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    words = [blocks & low, blocks >> np.uint64(32), blocks * 0 + np.uint64(stream), blocks * 0]
    keys = [seed & 0xFFFFFFFF, 0]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [
            second >> np.uint64(32) ^ words[1] ^ np.uint64(keys[0]),
            second & low,
            first >> np.uint64(32) ^ words[3] ^ np.uint64(keys[1]),
            first & low,
        ]
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    numbers = np.stack(words, -1).reshape(-1)[:count] >> np.uint64(8)
    return torch.from_numpy(numbers.astype(np.float64) * 2.0**-24).reshape(tuple(shape))
