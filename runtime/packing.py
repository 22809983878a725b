"""Integers of 4 bits, two to a byte: how weights are given to parameters of dtype s4."""

from __future__ import annotations

from typing import Any

from mucc.runtime.errors import MuccValueError


def pack_s4(values: Any) -> Any:
    """Whole numbers from -8 to 7, `[..., K]`, as bytes `[..., K/2]` (uint8).

    Of two neighbours along the last axis the first one is in the low half of their byte. `values` is an array
    of NumPy or a torch tensor, of any integer dtype; the result is of the same library and device. Raises
    `MuccValueError` MU6043 for numbers out of range, an odd extent, or what is no integer.
    """
    kind = str(getattr(values, "dtype", type(values).__name__))
    if "int" not in kind or not values.ndim or values.shape[-1] % 2:
        shape = tuple(getattr(values, "shape", ()))
        raise MuccValueError("MU6043", f"expected integers with an even last extent, got {kind}{list(shape)}")
    if values.shape[-1] and (int(values.min()) < -8 or int(values.max()) > 7):
        found = f"{int(values.min())} to {int(values.max())}"
        raise MuccValueError("MU6043", f"s4 holds -8 to 7, got numbers from {found}")
    return _bytes((values[..., ::2] & 15) | ((values[..., 1::2] & 15) << 4))


def unpack_s4(packed: Any) -> Any:
    """The numbers that `pack_s4` was given, as int8: `[..., K]` from bytes `[..., K/2]` (uint8 or int8)."""
    kind = str(getattr(packed, "dtype", type(packed).__name__))
    if not kind.endswith("int8"):
        raise MuccValueError("MU6043", f"expected bytes (uint8 or int8), got {kind}")
    wide = _bytes(packed)
    low, high = wide & 15, wide >> 4
    result = _signed(wide, (*packed.shape[:-1], 2 * packed.shape[-1]))
    result[..., ::2], result[..., 1::2] = _nibble(low), _nibble(high)
    return result


def _nibble(x: Any) -> Any:
    """Bytes below 16 as numbers from -8 to 7, of either library."""
    return _as(x ^ 8, "int8") - 8


def _bytes(x: Any) -> Any:
    return _as(x, "uint8")


def _as(x: Any, dtype: str) -> Any:
    """Converted, in the library of the array; what does not fit wraps around."""
    if hasattr(x, "astype"):
        return x.astype(dtype)
    import torch

    return x.to(getattr(torch, dtype))


def _signed(like: Any, shape: tuple[int, ...]) -> Any:
    """An array of int8 beside another one."""
    if hasattr(like, "astype"):
        import numpy

        return numpy.empty(shape, dtype=numpy.int8)
    return like.new_empty(shape, dtype=_as(like[..., :0], "int8").dtype)
