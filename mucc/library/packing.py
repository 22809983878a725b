"""Pack 4-bit integers two to a byte, for parameters of dtype s4 and u4."""

from __future__ import annotations

import importlib
import math
from typing import Any

from mucc.library.errors import MuccValueError


def pack_s4(values: Any) -> Any:
    """Pack whole numbers from -8 to 7, `[..., K]`, into bytes `[..., K/2]` (uint8).

    Of two neighbours along the last axis the first one is in the low half of their byte. `values` is an array
    of NumPy or a torch tensor, of any integer dtype; the result is of the same library and device. Raises
    `MuccValueError` MU6043 for numbers out of range, an odd extent, or what is no integer.
    """
    return _packed(values, "s4", -8)


def pack_u4(values: Any) -> Any:
    """Pack whole numbers from 0 to 15, as `pack_s4`."""
    return _packed(values, "u4", 0)


def _packed(values: Any, dtype: str, least: int) -> Any:
    kind = str(getattr(values, "dtype", type(values).__name__))
    if "int" not in kind or not values.ndim or values.shape[-1] % 2:
        shape = tuple(getattr(values, "shape", ()))
        raise MuccValueError("MU6043", f"expected integers with an even last extent, got {kind}{list(shape)}")
    if math.prod(values.shape) and (int(values.min()) < least or int(values.max()) > least + 15):
        found = f"{int(values.min())} to {int(values.max())}"
        raise MuccValueError("MU6043", f"{dtype} holds {least} to {least + 15}, got numbers from {found}")
    return _bytes((values[..., ::2] & 15) | ((values[..., 1::2] & 15) << 4))


def unpack_s4(packed: Any) -> Any:
    """Unpack bytes of `pack_s4`, `[..., K/2]` (uint8 or int8), to int8 `[..., K]`."""
    return _unpacked(packed, 8)


def unpack_u4(packed: Any) -> Any:
    """Unpack bytes of `pack_u4`, `[..., K/2]` (uint8 or int8), to int8 `[..., K]`."""
    return _unpacked(packed, 0)


def _unpacked(packed: Any, sign: int) -> Any:
    """Split bytes into halves; the bit `sign` counts as negative."""
    kind = str(getattr(packed, "dtype", type(packed).__name__))
    if not kind.endswith("int8"):
        raise MuccValueError("MU6043", f"expected bytes (uint8 or int8), got {kind}")
    wide = _bytes(packed)
    low, high = wide & 15, wide >> 4
    result = _signed(wide, (*packed.shape[:-1], 2 * packed.shape[-1]))
    result[..., ::2], result[..., 1::2] = (_as(half ^ sign, "int8") - sign for half in (low, high))
    return result


def _bytes(x: Any) -> Any:
    return _as(x, "uint8")


def _as(x: Any, dtype: str) -> Any:
    """Convert the dtype of an array of either library; out-of-range values wrap around."""
    if hasattr(x, "astype"):
        return x.astype(dtype)
    return x.to(getattr(importlib.import_module("torch"), dtype))


def _signed(like: Any, shape: tuple[int, ...]) -> Any:
    """Allocate an int8 array in the library and on the device of another array."""
    if hasattr(like, "astype"):
        import numpy

        return numpy.empty(shape, dtype=numpy.int8)
    return like.new_empty(shape, dtype=_as(like[..., :0], "int8").dtype)
