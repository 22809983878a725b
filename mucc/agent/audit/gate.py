"""Times of work on a GPU by the judge's clock, without a word of the candidate's process in between.

The candidate's process puts a call into the default stream of the GPU behind a gate: a wait for a number in
memory that the judge shares. When all is in the stream, the judge changes the inputs a last time, writes the
number, and watches three other numbers there, which the GPU writes: when inputs lie in its memory and caches
are cold, when the call's work is done, and when results are in memory of the judge. So Python's time to start
kernels does not count, as it does not in a loop that keeps the GPU busy. Imports torch.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from typing import Any

from mucc.agent.audit.rooms import Room

torch: Any = importlib.import_module("torch")

OPEN, READY, DONE, HANDED = range(4)
"""Which number is which, each in a cache line of its own."""

LINE = 16
"""Numbers between two of them."""

NAME = "flags"
BYTES = 4096

ARMED_S = 0.05
"""Seconds after which the gate opens in any case: a call that waits for the GPU would wait for ever."""

SPIN_S = 0.02
"""Seconds in which the judge looks all the time; after that it sleeps between looks, for a share of what has
passed."""

GREATER_OR_EQUAL = 0

MAPPED = 3
"""Of cuMemHostRegister: for all contexts, and mapped for the device."""


class Ended(Exception):
    """The candidate's process has ended, or says what is none."""


class Stream:
    """The candidate's side: what its runner puts into the default stream."""

    def __init__(self, room: Room):
        self._driver = ctypes.CDLL("libcuda.so.1")
        pin(room, self._driver)
        place = ctypes.c_uint64()
        self._check(
            self._driver.cuMemHostGetDevicePointer_v2(ctypes.byref(place), ctypes.c_void_p(room.start), 0)
        )
        self._place = place.value
        self._wait_value = getattr(self._driver, "cuStreamWaitValue32_v2", self._driver.cuStreamWaitValue32)
        self._write_value = getattr(
            self._driver, "cuStreamWriteValue32_v2", self._driver.cuStreamWriteValue32
        )

    def wait(self, number: int) -> None:
        """Have the stream wait until the gate has been opened for a call."""
        self._at(self._wait_value, OPEN, number, GREATER_OR_EQUAL)

    def mark(self, which: int, number: int) -> None:
        """Have the stream write a call's number."""
        self._at(self._write_value, which, number, 0)

    def _at(self, function: Any, which: int, number: int, flags: int) -> None:
        place = ctypes.c_uint64(self._place + which * LINE * 4)
        self._check(function(None, place, ctypes.c_uint32(number), ctypes.c_uint(flags)))

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}")


def pin(room: Room, driver: Any = None) -> None:
    """Have the GPU reach shared memory by itself."""
    torch.cuda.synchronize()  # there is a context from here on
    driver = driver or ctypes.CDLL("libcuda.so.1")
    status = driver.cuMemHostRegister_v2(ctypes.c_void_p(room.start), ctypes.c_size_t(room.size), MAPPED)
    if status:
        raise RuntimeError(f"CUDA error {status}")


class Gate:
    """The judge's side."""

    def __init__(self, room: Room):
        self._words = memoryview(room.memory).cast("I")
        self.number = 0
        self.patience = float("inf")
        """Seconds to wait for the next number before giving up."""

    def next(self) -> int:
        """Return the number of the next call."""
        self.number += 1
        return self.number

    def opened(self) -> int:
        """Open the gate; return the time in ns."""
        now = time.perf_counter_ns()
        self._words[OPEN * LINE] = self.number
        return now

    def watched(self, alive: Callable[[], None]) -> tuple[int, int, int]:
        """Return the times in ns at which inputs were ready, work was done, and results were handed over.
        `alive` raises where nothing is to come any more."""
        found = tuple(self._seen(which, alive) for which in (READY, DONE, HANDED))
        return found[0], found[1], found[2]

    def _seen(self, which: int, alive: Callable[[], None]) -> int:
        words, at, number = self._words, which * LINE, self.number
        now = started = time.perf_counter_ns()
        while words[at] != number:
            now = time.perf_counter_ns()
            if now - started > SPIN_S * 1e9:
                alive()
                if now - started > self.patience * 1e9:
                    raise Ended
                time.sleep(min((now - started) / 1e9 / 200, 0.05))
        return time.perf_counter_ns()
