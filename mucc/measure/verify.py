"""Draw inputs and judge outputs, in NumPy or torch (`xp` is the library)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mucc.dialects.mu.arrays import NARROW_FLOATS, arrays_for
from mucc.library.signature import KernelInfo

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation

ROUNDOFF = {"bf16": 2.0**-9, "f16": 2.0**-12, "f32": 2.0**-25, "e4m3": 2.0**-4, "e5m2": 2.0**-3}
"""Half the relative distance of neighbouring numbers: the error of one rounding to nearest at most."""

UNIT = {"s8": 1.0, "u8": 1.0, "s32": 0.0}
"""By how much an integer may be off where what was rounded lay between two. s32 holds exact sums."""

SPREAD = {"s4": 3.0, "u4": 6.0, "s8": 16.0, "u8": 16.0, "s32": 1000.0}
"""The standard deviation that random integers are drawn with."""

TIES = 1 / 16
"""The share of 8-bit numbers that may lie so close to the middle of two that they round either way."""

COMPUTE_ROUNDOFF = 2.0**-11
"""What f32 inputs lose when the tensor cores read them as tf32, and what fast tanh and exp lose."""

NOISE = 2.0**-20
"""What float64 may lose of what roundings to f32 change: 2^-29 for each operation, many of which add up."""

NEGLIGIBLE = 1e-20
"""What may stand where a whole reference is 0: gelu(-50) is 0 in float64, and -1e-22 in a kernel."""


def tolerance(dtype: str) -> float:
    """Return the largest relative Frobenius error that an output of this dtype may have.

    Four roundings: of the output, of two operands, of a stored intermediate; each at most the coarser of
    the dtype's roundoff and that of the arithmetic. 7.8e-3 for bf16, 2.0e-3 for f16 and f32. One rounding of
    8-bit floats, since only few numbers lie so close to a tie that they round the other way: 6.3e-2 for e4m3.
    Integers: as bf16.
    """
    if dtype in ("e4m3", "e5m2"):
        return ROUNDOFF[dtype]
    return 4 * max(ROUNDOFF["bf16" if dtype in UNIT else dtype], COMPUTE_ROUNDOFF)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One output against its reference.

    `relative` is ‖out − ref‖ / ‖ref‖ (Frobenius). `worst` is the largest |out − ref| / (|ref| + rms(ref)):
    it shows the single wrong element that a norm over millions hides; one step of 8-bit numbers does not
    count for it. `wrong` counts elements that are not finite where the reference is, or the other way round.

    Where bounds of errors are known, `beyond` counts the elements outside of their bounds, `example` is the
    worst of them, and `allowance` is the width of the bounds of all elements, as a share of ‖ref‖.
    `astray` says that the program as it was divided into stages does not mean what the reference does.
    Without bounds `relative` may be as large as `tolerance`, and `worst` four times that, since the largest
    of many roundings is some sigmas from their mean.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    relative: float
    worst: float
    wrong: int
    allowance: float = 0.0
    astray: bool = False
    beyond: int | None = None
    example: str = ""

    @property
    def tolerance(self) -> float:
        return tolerance(self.dtype) + self.allowance

    @property
    def good(self) -> bool:
        if self.beyond is not None:
            return not self.beyond and not self.astray
        return not self.wrong and self.relative <= self.tolerance and self.worst <= 4 * tolerance(self.dtype)


class Reference(NamedTuple):
    """What an output should be, in float64 at the output's dtype.

    `value` is what the program gives without roundings, and `exact` what its stages do. A right kernel gives
    an element from `low` to `high`; `near` is the one to expect. NaN is right where `near` or `exact` is NaN,
    and where the ends are both infinite, of either sign.
    """

    value: Any
    exact: Any = None
    near: Any = None
    low: Any = None
    high: Any = None

    def each(self, function: Callable[[Any], Any]) -> Reference:
        """Apply a function to all values."""
        return Reference(*(None if v is None else function(v) for v in self))


def references(compilation: Compilation, info: KernelInfo, inputs: Sequence[Any]) -> list[Reference]:
    """Compute the references of all outputs of a kernel, on the device of the inputs."""
    arrays = arrays_for(*inputs)
    dtypes = [a.dtype for a in info.outputs]
    found: list[Reference] = []
    values = compilation.interpret(info.name, inputs, exact=True)
    exact = compilation.interpret_stages(info.name, inputs)
    bounded = compilation.interpret_stages(info.name, inputs, bounded=True)
    for dtype, value, known, result in zip(dtypes, values, exact, bounded, strict=True):
        low, high = _ends(arrays.xp, result.value, result.bound)
        parts = (arrays.round_to(part, dtype) for part in (value, known, result.value, low, high))
        found.append(Reference(*parts))
    return found


def _ends(xp: Any, near: Any, bound: Any) -> tuple[Any, Any]:
    """Return the ends of intervals around values."""
    infinite = xp.full_like(near, math.inf)
    unknown = bound == math.inf
    bound = xp.where(unknown, xp.zeros_like(bound), bound)
    return xp.where(unknown, -infinite, near - bound), xp.where(unknown, infinite, near + bound)


class _Distance(NamedTuple):
    """How far values are from others: see `Verdict`."""

    relative: float
    worst: float
    wrong: int


def _step(dtype: str, value: Any, xp: Any) -> Any:
    """Return the distance of neighbouring numbers around each value for dtypes of 8 bits; 0 for others."""
    if dtype in UNIT:
        return xp.full_like(value, UNIT[dtype])
    if dtype not in NARROW_FLOATS:
        return xp.zeros_like(value)
    format = NARROW_FLOATS[dtype]
    exponent = xp.frexp(value)[1] - 1
    least = xp.full_like(exponent, format.exponent)
    return xp.ldexp(xp.ones_like(value), xp.maximum(exponent, least) - format.mantissa)


def _distance(dtype: str, out: Any, ref: Any, slack: Any, xp: Any) -> _Distance:
    """How far an output is from a reference, of which each element may be off by some slack besides."""
    finite = xp.isfinite(ref)
    same = (finite & xp.isfinite(out)) | (xp.isnan(ref) & xp.isnan(out)) | (ref == out)
    zero = xp.zeros_like(ref)
    usable = finite & xp.isfinite(out)
    ref = xp.where(usable, ref, zero)
    error = xp.abs(xp.where(usable, out, zero) - ref)
    size = math.prod(ref.shape)
    norm, error_norm = _norm(ref), _norm(error)
    wrong = int((~same).sum())
    step = _step(dtype, ref, xp)
    beyond = xp.maximum(error - step - slack, zero)
    if norm == 0.0:
        none = error_norm == 0.0 or float(xp.maximum(error - slack, zero).max()) <= NEGLIGIBLE
        return _Distance(0.0 if none else math.inf, 0.0 if none else math.inf, wrong)
    if 0 < int((error > 0).sum()) <= max(1, int(TIES * size)):
        # Few elements, by one step each: they lay between two numbers.
        rest = xp.maximum(error - step, zero)
        error_norm = _norm(rest)
    return _Distance(
        error_norm / norm, float((beyond / (xp.abs(ref) + norm / size**0.5)).max()) if size else 0.0, wrong
    )


def _finite(value: Any, xp: Any) -> Any:
    """Replace elements that are infinite or NaN by 0."""
    return xp.where(xp.isfinite(value), value, xp.zeros_like(value))


def _norm(value: Any) -> float:
    """Return the Frobenius norm."""
    return float((value * value).sum()) ** 0.5


def _share(error: float, value: Any, xp: Any) -> float:
    """Divide an error by the Frobenius norm of a value's finite elements; 0 if that norm is 0."""
    norm = _norm(_finite(value, xp))
    return error / norm if norm else 0.0


def compare(name: str, dtype: str, out: Any, ref: Any, xp: Any) -> Verdict:
    """Judge an output (float64 values of what the kernel wrote) by a reference of the same shape alone.

    Where the reference is NaN or infinite, in the output's dtype, the output must be so too.
    """
    return Verdict(name, dtype, _shape(name, out, ref), *_distance(dtype, out, ref, 0.0, xp))


def _shape(name: str, out: Any, ref: Any) -> tuple[int, ...]:
    shape = tuple(int(n) for n in out.shape)
    if shape != tuple(int(n) for n in ref.shape):
        raise ValueError(f"output {name} has shape {shape}, its reference {tuple(ref.shape)}")
    return shape


def against(name: str, dtype: str, out: Any, wanted: Reference, xp: Any) -> Verdict:
    """Judge an output by what `references` gives for it.

    Every element must be one that a right kernel may give. What the stages give is compared with the program
    itself, but for float64's own roundings, so that no bound hides a program that means another thing. An
    element that is NaN or infinite only with, or only without, the roundings of kernels (1/x where x is 0 but
    for roundings) may be either. Where kernels may give anything, roundings of float64 alone may decide what
    the stages give, so these elements are not held against the program. References of a kernel without
    tensors to read are arrays of NumPy, whatever `out` is.
    """
    if arrays_for(wanted.value).xp is not arrays_for(out).xp:
        wanted = wanted.each(partial(xp.asarray, device=out.device))
    value, exact, near, low, high = wanted
    shape = _shape(name, out, value)
    found = _distance(dtype, out, value, 0.0, xp)
    if exact is None:
        return Verdict(name, dtype, shape, *found)
    room = xp.abs(_finite(high, xp) - _finite(low, xp))
    allowed = _norm(room)
    unknown = (low == -math.inf) & (high == math.inf)
    meant = _distance(dtype, xp.where(unknown, value, exact), value, NOISE * room, xp)
    astray = not Verdict(name, dtype, shape, *meant, allowance=_share(NOISE * allowed, value, xp)).good
    right = (out >= low) & (out <= high)
    right = right | (xp.isnan(out) & (xp.isnan(near) | xp.isnan(exact) | unknown))
    right = right | ((out == exact) & xp.isinf(exact))
    if not bool(right.all()) and dtype not in UNIT and _norm(_finite(value, xp)) == 0:
        right = right | (xp.abs(out) <= NEGLIGIBLE)
    beyond = int((~right).sum())
    example = _example(out, near, low, high, right, xp) if beyond else ""
    return Verdict(name, dtype, shape, *found, _share(allowed, value, xp), astray, beyond, example)


def _example(out: Any, near: Any, low: Any, high: Any, right: Any, xp: Any) -> str:
    """Describe the element that is farthest beyond what is right, relative to its size."""
    known = xp.isfinite(out) & xp.isfinite(low) & xp.isfinite(high)
    got, least, most, size = (_finite(value, xp) for value in (out, low, high, near))
    size = xp.abs(size) + _norm(size) / math.prod(near.shape) ** 0.5 + NEGLIGIBLE
    apart = xp.where(known, xp.maximum(got - most, least - got) / size, xp.full_like(near, math.inf))
    flat = int(xp.where(right, xp.full_like(apart, -1.0), apart).reshape(-1).argmax())
    place: list[int] = []
    rest = flat
    for extent in reversed(near.shape):
        rest, index = divmod(rest, int(extent))
        place.insert(0, index)
    got, least, most = (float(v.reshape(-1)[flat]) for v in (out, low, high))
    return f"{place} is {got:.9g}, right is {least:.9g} to {most:.9g}"


def input_scales(info: KernelInfo, dims: Mapping[str, int]) -> dict[str, float]:
    """Return a factor for the normal numbers of each input tensor with which outputs are about 1.

    Of a product x @ w.T of K terms one factor is shrunk by about 1/sqrt(K). The weights, which are shrunk,
    are the matrices after the first that have a dim which no output has; a residual or a bias keeps its
    size. The factor is (rows · columns)^(-1/4), so that a chain of layers D -> H -> D keeps its size as
    well. Integers are not shrunk: few would be left that are not 0.
    """
    kept = {e for a in info.outputs for e in a.shape}
    scales: dict[str, float] = {}
    seen_matrix = False
    for arg in info.inputs:
        if arg.role != "input":
            continue
        matrix = len(arg.shape) >= 2
        weight = matrix and seen_matrix and any(e not in kept for e in arg.shape)
        seen_matrix = seen_matrix or matrix
        scales[arg.name] = math.prod(arg.extents(dims)[-2:]) ** -0.25 if weight else 1.0
        if arg.dtype in SPREAD:
            scales[arg.name] = SPREAD[arg.dtype]
    return scales
