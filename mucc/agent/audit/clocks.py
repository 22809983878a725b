"""Clocks for calls in the process at hand. Imports torch."""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

torch: Any = importlib.import_module("torch")

CPU_FLUSH = 1 << 24
"""Numbers that are read between timed calls on a CPU, 64 MiB."""


class Timed(NamedTuple):
    """One timed call in ms, until the current stream was done."""

    ms: float


class Clock(Protocol):
    """What calls are timed with."""

    def flush(self) -> None:
        """Have the caches hold something else."""
        ...

    def begin(self) -> None:
        """Note that a call starts."""
        ...

    def end(self) -> None:
        """Note that a call returned."""
        ...

    def wait(self) -> None:
        """Until nothing runs on the device."""
        ...

    def times(self) -> list[Timed]:
        """Return the times since the last call of this method."""
        ...


def clock(device: Any) -> Clock:
    """Return the clock of a device."""
    return CudaClock(device) if device.type == "cuda" else CpuClock()


@cache
def _cpu_flush() -> Any:
    """Return numbers that fill the caches of a CPU when they are read. To write them first takes long: who
    flushes nothing needs none."""
    return torch.zeros(CPU_FLUSH)


class CpuClock:
    """Wall-clock time of calls on a CPU."""

    def __init__(self) -> None:
        self._now: Callable[[], int] = time.perf_counter_ns
        self._started = 0
        self._found: list[Timed] = []

    def flush(self) -> None:
        _cpu_flush().amax()

    def begin(self) -> None:
        self._started = self._now()

    def end(self) -> None:
        self._found.append(Timed((self._now() - self._started) / 1e6))

    def wait(self) -> None:
        pass

    def times(self) -> list[Timed]:
        found, self._found = self._found, []
        return found


class CudaClock:
    """Device events of the CUDA driver's C interface on the default stream."""

    def __init__(self, device: Any) -> None:
        torch.cuda.init()
        torch.zeros(1, device=device)
        driver = ctypes.CDLL("libcuda.so.1")
        self._create, self._record = driver.cuEventCreate, driver.cuEventRecord
        self._elapsed = getattr(driver, "cuEventElapsedTime_v2", driver.cuEventElapsedTime)
        self._synchronize = driver.cuCtxSynchronize
        self._record.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._elapsed.argtypes = (ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p)
        size = torch.cuda.get_device_properties(device).L2_cache_size
        self._read: Callable[[], Any] = torch.zeros(size, dtype=torch.float32, device=device).amax
        self._events: list[list[ctypes.c_void_p]] = []

    def flush(self) -> None:
        self._read()  # a read: a write would leave lines for the next kernel to write back

    def begin(self) -> None:
        self._events.append([self._event()])

    def end(self) -> None:
        self._events[-1].append(self._event())

    def wait(self) -> None:
        status = self._synchronize()
        if status:
            raise RuntimeError(f"CUDA error {status}")

    def times(self) -> list[Timed]:
        self.wait()
        found = [Timed(self._between(*e)) for e in self._events]
        self._events = []
        return found

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        if (status := self._create(ctypes.byref(event), 0)) or (status := self._record(event, None)):
            raise RuntimeError(f"CUDA error {status}")
        return event

    def _between(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        ms = ctypes.c_float()
        if status := self._elapsed(ctypes.byref(ms), start, end):
            raise RuntimeError(f"CUDA error {status}")
        return ms.value
