"""The few functions of the CUDA driver that a profiled process needs, by ctypes: it starts in half a second
where torch takes several."""

from __future__ import annotations

import ctypes
from typing import Any


class DriverError(Exception):
    """The CUDA driver is missing, or refused a call."""


class Driver:
    """The first device of the CUDA driver, with its primary context current. Raises DriverError."""

    def __init__(self) -> None:
        try:
            self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise DriverError(f"no CUDA driver: {error}") from None
        context, handle = ctypes.c_void_p(), ctypes.c_int()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(handle), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> int:
        """Allocate device memory of a size in bytes; return its address."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 256)))
        return address.value

    def fill(self, address: int, size: int, pattern: bytes) -> None:
        """Fill a number of bytes with a repeated pattern."""
        first = min(len(pattern), size)
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), pattern, ctypes.c_size_t(first))
        done = first
        while done < size:
            more = min(done, size - done)
            source, target = ctypes.c_uint64(address), ctypes.c_uint64(address + done)
            self._call("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(more))
            done += more

    def wait(self) -> None:
        """Wait until the device has finished all work."""
        self._call("cuCtxSynchronize")

    def profile(self, on: bool) -> None:
        """Start or stop the profiler."""
        self._call("cuProfilerStart" if on else "cuProfilerStop")

    def _call(self, name: str, *args: Any) -> None:
        if status := getattr(self._cuda, name)(*args):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(status, ctypes.byref(text))
            said = (text.value or b"an unknown error").decode()
            raise DriverError(f"{name} failed: {said}")
