"""Tolerances of results, for imports and audits. Imports torch."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from mucc.torch.importer.request import BEARABLE

torch: Any = importlib.import_module("torch")

TOLERANCE = {
    "declared": {"float32": 1e-4, "float64": 1e-4, "float16": 1e-2, "bfloat16": 2e-2},
    "tf32": {"float32": 5e-3, "float64": 5e-3, "float16": 1e-2, "bfloat16": 2e-2},
    "f16": {"float32": 1e-2, "float64": 1e-2, "float16": 1e-2, "bfloat16": 2e-2},
    "bf16": {"float32": 4e-2, "float64": 4e-2, "float16": 4e-2, "bfloat16": 4e-2},
}
"""What a result may be off, by policy and dtype, times (|ref| + rms(ref)); as declared, KernelBench's."""

OTHERS = 6e-2
"""The same for formats that are not named above."""

OWN_ERROR = 2.0
"""What PyTorch's own result is off, as it is or in the format that the policy permits, counts so many times
towards what is tolerated."""

UNKNOWN = 1e-3
"""Of the rms of a result: PyTorch's own error where nothing can be computed in float64."""

SHRUNK = 2.0**-20
"""An error that float64 makes so many times smaller is one of rounding, which it makes 2**-29 times as large.
What a program means differently stays as large as it was."""

STAND_IN = 1e30
"""Numbers from here on stand for infinity, as masks use them; they say nothing of the size of a result."""


class Compared(NamedTuple):
    """The largest error over what is tolerated, the largest error, and that in words; PyTorch's own largest
    error over the rms of the result."""

    excess: float
    largest: float
    why: str
    noise: float = 0.0


def compared(
    got: Any,
    want: Any,
    near: Any,
    precision: str,
    noise: float = 0.0,
    narrow: Any = None,
    most: float = math.inf,
) -> Compared:
    """Compare a result with the exact one, `want`, and PyTorch's own, `near`; all of one shape.

    `narrow` is PyTorch's in the format that the policy permits, where that is another. PyTorch's own error
    counts as `noise` times the rms of the result at the least. The rms counts for `most` at the most where it
    says what small elements may be off.
    """
    if not near.is_floating_point():
        wrong = int(((got != near) & (got != want)).sum())
        return (
            Compared(math.inf, math.inf, f"differs in {wrong} elements") if wrong else Compared(0.0, 0.0, "")
        )
    want, got, close = want.double(), got.double(), near.double()
    finite = torch.isfinite(close) & torch.isfinite(want)
    same = (got == close) | (torch.isnan(got) & torch.isnan(close))
    strange = int((~torch.isfinite(got) & finite).sum()) + int((~finite & ~same & torch.isfinite(got)).sum())
    if strange:
        return Compared(math.inf, math.inf, f"has {strange} elements that are not finite, or should not be")
    zero = torch.zeros_like(want)
    want, got = torch.where(finite, want, zero), torch.where(finite, got, zero)
    off = (got - want).abs()
    if not off.numel():
        return Compared(0.0, 0.0, "")
    size = rms(torch.where(want.abs() < STAND_IN, want, zero))
    own = torch.where(finite, close - want, zero).abs().max()
    if narrow is not None:
        errors = torch.where(finite, narrow.double() - want, zero).abs()
        own = torch.maximum(own, errors.nan_to_num(0.0, 0.0, 0.0).max())
    measured = float(own / size) if size > 0 else 0.0
    own = torch.maximum(own, noise * size)
    allowed = _tolerance(TOLERANCE[precision], near) * (want.abs() + size.clamp(max=most)) + OWN_ERROR * own
    excess = float(torch.where(off > 0, off / allowed.clamp_min(1e-300), zero).max())
    largest = float(off.max())
    why = f"is off by {largest:.3g}, {excess:.3g} times what is tolerated"
    return Compared(excess, largest, why, measured)


def meant(got: Any, near: Any, exact: Any = None, *, overflows: bool = False) -> Compared:
    """Compare what a program means, by its interpreter, with PyTorch's result, and that in float64 if known.

    An element is right if it is close to either. Where an element is close to neither, PyTorch's own error
    counts as far as it is `BEARABLE`: beyond, that error says nothing of the program. With `overflows` the
    result in float64 does not excuse an element that is finite where PyTorch's is not: the module has
    values of narrow formats, which overflow where f64 does not.
    """
    strange = _strange(got, near)
    found = compared(got, near, near, "declared", most=1.0)
    if strange:
        why = f"has {strange} elements that are not finite in another way"
        found = Compared(math.inf, math.inf, why)
    if found.excess <= 1 or exact is None or exact.shape != near.shape:
        return found
    if not near.is_floating_point():
        return compared(got, exact, near, "declared")
    got, wide = got.double(), near.double()
    matches = (got == exact) | (torch.isnan(got) & torch.isnan(exact))
    matches |= (got - exact).abs() < (got - wide).abs().nan_to_num(math.inf)
    if overflows:
        matches &= torch.isfinite(wide)
    either = torch.where(matches, exact, wide)
    right = compared(got, either, either.to(near.dtype), "declared", most=1.0)
    if right.excess <= 1 and not _strange(got, either):
        return right
    judged = compared(got, exact, near, "declared", most=1.0)
    is_fair = judged.noise <= BEARABLE and not strange
    return judged if is_fair else found._replace(noise=judged.noise)


def meant_in_float64(got: Any, exact: Any, *in_f32: Any) -> Compared:
    """Compare what a program and PyTorch give in float64, where rounding to f32 decides their results.

    A sum that is 0 but for rounding has no size by which to judge a difference: that may be as large as what
    rounding to float64 makes of the errors of both results in f32, `in_f32`.
    """
    exact = exact.double()
    rounding = max(float((r.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0).max()) for r in in_f32)
    is_rounding = (got - exact).abs() <= SHRUNK * rounding
    return compared(torch.where(is_rounding, exact, got), exact, exact, "declared", most=1.0)


def _strange(got: Any, near: Any) -> int:
    """How many elements are not finite where they should be another infinity, or NaN."""
    if not near.is_floating_point():
        return 0
    got, near = got.double(), near.double()
    return int((~torch.isfinite(near) & (got != near) & ~(torch.isnan(got) & torch.isnan(near))).sum())


def in_float64(value: Any) -> Any:
    """Return a copy of a tensor, in float64 if it has floating-point numbers; other values as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.double() if value.is_floating_point() else value.clone()


def form(n: int, expected: Any, dtype: str, shape: list[int] | None) -> str:
    """Return what is wrong with the kind of result `n`, or ''; `shape` is None if it is no tensor."""
    if shape is None:
        return f"result {n} is no tensor"
    if shape != list(expected.shape):
        return f"result {n} has shape {shape}, {list(expected.shape)} expected"
    wanted = dtype_name(expected)
    return "" if dtype == wanted else f"result {n} is {dtype}, {wanted} expected"


def dtype_name(value: Any) -> str:
    """Return the dtype of a tensor as text, without the module."""
    return str(value.dtype).removeprefix("torch.")


def rms(t: Any) -> Any:
    """Return the root mean square of a tensor's elements."""
    return (t * t).mean().sqrt()


def _tolerance(tolerances: Mapping[str, float], like: Any) -> float:
    return tolerances.get(dtype_name(like), OTHERS)
