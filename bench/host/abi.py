"""Types of ctypes for the tensors of the C interface."""

from __future__ import annotations

import ctypes as ct

CPU, CUDA = 1, 2
DTYPES = {
    "bf16": (4, 16),
    "f16": (2, 16),
    "f32": (2, 32),
    "f64": (2, 64),
    "e4m3": (10, 8),
    "e5m2": (12, 8),
    "s8": (0, 8),
    "s32": (0, 32),
    "u8": (1, 8),
    "i64": (0, 64),
}
"""The DLPack type code and the bits of each dtype."""


class Device(ct.Structure):
    _fields_ = [("type", ct.c_int32), ("id", ct.c_int32)]


class DType(ct.Structure):
    _fields_ = [("code", ct.c_uint8), ("bits", ct.c_uint8), ("lanes", ct.c_uint16)]


class Tensor(ct.Structure):
    """MuccTensor."""

    _fields_ = [
        ("data", ct.c_void_p),
        ("device", Device),
        ("ndim", ct.c_int32),
        ("dtype", DType),
        ("shape", ct.POINTER(ct.c_int64)),
        ("strides", ct.POINTER(ct.c_int64)),
        ("byte_offset", ct.c_uint64),
    ]
