"""Array functions of the interpreters for which NumPy and torch differ.

Interpreters compute in float64 with the array library of their inputs: NumPy on a CPU, torch on a CPU or GPU.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol


class NarrowFloat(NamedTuple):
    """An 8-bit float: bits of mantissa, exponent of the smallest normal number, largest finite number."""

    mantissa: int
    exponent: int
    largest: float


NARROW_FLOATS = {"e4m3": NarrowFloat(3, -6, 448.0), "e5m2": NarrowFloat(2, -14, 57344.0)}
"""Open Compute Project, OCP 8-bit Floating Point Specification (OFP8), revision 1.0."""

INTEGERS = {"s4": (-8, 7), "u4": (0, 15), "s8": (-128, 127), "u8": (0, 255), "s32": (-(2**31), 2**31 - 1)}
"""The smallest and the largest integer of each dtype."""


def to_tf32(arrays: Arrays, value: Any) -> Any:
    """Round to tf32: 10 bits of mantissa, and the exponents of f32."""
    xp, single = arrays.xp, arrays.round_to(value, "f32")
    mantissa, exponent = xp.frexp(single)
    return xp.where(xp.isfinite(single), xp.ldexp(xp.round(mantissa * 2.0**11), exponent - 11), single)


def unpacked(xp: Any, bytes: Any, dtype: str) -> Any:
    """Unpack 4-bit integers from bytes, signed or unsigned; the last axis doubles."""
    halves = xp.stack((bytes, xp.floor(bytes / 16)), -1).reshape((*bytes.shape[:-1], 2 * bytes.shape[-1]))
    least = INTEGERS[dtype][0]
    return xp.remainder(halves - least, 16) + least


class Arrays(Protocol):
    """An array library. `xp` is the module, for functions that NumPy and torch have in common."""

    xp: ModuleType

    def float64(self, value: Any) -> Any:
        """Convert to a float64 array."""
        ...

    def round_to(self, value: Any, dtype: str) -> Any:
        """Round to f32, then to `dtype` (nearest, ties to even); return float64.

        This is what a kernel's store does: kernels compute in f32. Values out of range of e4m3, e5m2 and
        integers saturate, and NaN becomes the integer 0. For s32 there is no rounding to f32: integer sums
        are exact.
        """
        ...

    def erf(self, value: Any) -> Any: ...

    def erfc(self, value: Any) -> Any:
        """Compute 1 - erf, accurate where that is small."""
        ...

    def whole(self, value: Any) -> Any:
        """Convert to int64; bools stay bools."""
        ...

    def reduce(self, kind: str, value: Any, axes: Sequence[int]) -> Any:
        """Reduce over axes: sum, max, min, amax, mean, prod; any and all of bools."""
        ...

    def permute(self, value: Any, order: Sequence[int]) -> Any:
        """Permute the axes."""
        ...

    def take_along(self, value: Any, index: Any, axis: int) -> Any:
        """Take elements along an axis by index, as `numpy.take_along_axis`."""
        ...

    def order(self, value: Any, axis: int) -> Any:
        """Return the positions, in order, of the elements along an axis.

        NaN is the largest, and equal ones keep their order.
        """
        ...

    def sorted(self, value: Any, axis: int) -> Any:
        """Return the elements sorted along an axis, the least first; NaN is the largest."""
        ...

    def full(self, shape: Sequence[int], value: float) -> Any: ...

    def repeat(self, value: Any, count: int, axis: int) -> Any:
        """Repeat each element along an axis `count` times."""
        ...


def wrapped(arrays: Arrays, value: Any) -> Any:
    """Wrap whole numbers around to 32-bit integers; return float64."""
    return arrays.float64((arrays.whole(value) + 2**31) % 2**32 - 2**31)


class NumpyArrays:
    """`Arrays` of NumPy."""

    def __init__(self) -> None:
        import numpy

        self.xp: Any = numpy

    def float64(self, value: Any) -> Any:
        return self.xp.asarray(value, dtype=self.xp.float64)

    def round_to(self, value: Any, dtype: str) -> Any:
        np = self.xp
        with np.errstate(over="ignore"):
            if dtype == "s32":
                return self._integer(np.asarray(value, dtype=np.float64), dtype)
            single = np.asarray(value, dtype=np.float32)
            if dtype in INTEGERS:
                return self._integer(single.astype(np.float64), dtype)
            if dtype in NARROW_FLOATS:
                return self._narrow(single.astype(np.float64), NARROW_FLOATS[dtype])
            if dtype == "f16":
                single = single.astype(np.float16)
        if dtype == "bf16":
            bits = single.view(np.uint32).astype(np.uint64)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
            single = np.where(np.isnan(single), single, rounded.astype(np.uint32).view(np.float32))
        return single.astype(np.float64)

    def _narrow(self, value: Any, format: NarrowFloat) -> Any:
        np = self.xp
        exponent = np.maximum(np.frexp(value)[1] - 1, format.exponent)
        step = np.ldexp(1.0, exponent - format.mantissa)
        return np.clip(np.rint(value / step) * step, -format.largest, format.largest)

    def _integer(self, value: Any, dtype: str) -> Any:
        np = self.xp
        whole = np.clip(np.rint(np.where(np.isnan(value), 0.0, value)), *INTEGERS[dtype])
        return whole + 0.0  # no integer is -0

    def erf(self, value: Any) -> Any:
        return self._each(math.erf, value)

    def erfc(self, value: Any) -> Any:
        return self._each(math.erfc, value)

    def _each(self, function: Callable[[float], float], value: Any) -> Any:
        return self.xp.asarray(self.xp.frompyfunc(function, 1, 1)(value), dtype=self.xp.float64)

    def whole(self, value: Any) -> Any:
        value = self.xp.asarray(value)
        return value if value.dtype == bool else value.astype(self.xp.int64)

    def reduce(self, kind: str, value: Any, axes: Sequence[int]) -> Any:
        np = self.xp
        function = getattr(np, "max" if kind == "amax" else kind)
        return function(np.abs(value) if kind == "amax" else value, axis=tuple(axes))

    def permute(self, value: Any, order: Sequence[int]) -> Any:
        return self.xp.transpose(value, tuple(order))

    def take_along(self, value: Any, index: Any, axis: int) -> Any:
        return self.xp.take_along_axis(value, index.astype(self.xp.int64), axis)

    def order(self, value: Any, axis: int) -> Any:
        return self.xp.argsort(value, axis, kind="stable")

    def sorted(self, value: Any, axis: int) -> Any:
        return self.xp.sort(value, axis)

    def full(self, shape: Sequence[int], value: float) -> Any:
        return self.xp.full(tuple(shape), value, dtype=self.xp.float64)

    def repeat(self, value: Any, count: int, axis: int) -> Any:
        return self.xp.repeat(value, count, axis=axis)


class TorchArrays:
    """`Arrays` of torch, on the device of the inputs."""

    def __init__(self, device: Any) -> None:
        self.xp: Any = importlib.import_module("torch")
        self.device = device

    def float64(self, value: Any) -> Any:
        return self.xp.as_tensor(value, device=self.device).to(self.xp.float64)

    def round_to(self, value: Any, dtype: str) -> Any:
        torch = self.xp
        if dtype in INTEGERS:
            exact = value.to(torch.float64 if dtype == "s32" else torch.float32).to(torch.float64)
            return torch.round(torch.where(torch.isnan(exact), 0.0, exact)).clamp(*INTEGERS[dtype]) + 0.0
        single = value.to(torch.float32)
        if format := NARROW_FLOATS.get(dtype):
            single = single.clamp(-format.largest, format.largest)
        targets = {
            "bf16": torch.bfloat16,
            "f16": torch.float16,
            "f32": torch.float32,
            "e4m3": torch.float8_e4m3fn,
            "e5m2": torch.float8_e5m2,
        }
        return single.to(targets[dtype]).to(torch.float64)

    def erf(self, value: Any) -> Any:
        return self.xp.erf(value)

    def erfc(self, value: Any) -> Any:
        return self.xp.erfc(value)

    def whole(self, value: Any) -> Any:
        return value if value.dtype == self.xp.bool else value.to(self.xp.int64)

    def reduce(self, kind: str, value: Any, axes: Sequence[int]) -> Any:
        torch = self.xp
        if not axes:
            return torch.abs(value) if kind == "amax" else value
        if kind == "prod":
            for axis in sorted(axes, reverse=True):
                value = torch.prod(value, dim=axis)
            return value
        function = getattr(torch, {"max": "amax", "min": "amin"}.get(kind, kind))
        return function(torch.abs(value) if kind == "amax" else value, dim=tuple(axes))

    def permute(self, value: Any, order: Sequence[int]) -> Any:
        return self.xp.permute(value, tuple(order))

    def take_along(self, value: Any, index: Any, axis: int) -> Any:
        return self.xp.gather(value, axis, index.to(self.xp.int64))

    def order(self, value: Any, axis: int) -> Any:
        return self.xp.argsort(value, dim=axis, stable=True)

    def sorted(self, value: Any, axis: int) -> Any:
        return self.xp.sort(value, dim=axis).values

    def full(self, shape: Sequence[int], value: float) -> Any:
        return self.xp.full(tuple(shape), value, dtype=self.xp.float64, device=self.device)

    def repeat(self, value: Any, count: int, axis: int) -> Any:
        return self.xp.repeat_interleave(value, count, dim=axis)


def arrays_for(*values: Any) -> Arrays:
    """Choose the library of the values: torch if one is a torch tensor, otherwise NumPy."""
    for value in values:
        if type(value).__module__.partition(".")[0] == "torch":
            return TorchArrays(value.device)
    return NumpyArrays()
