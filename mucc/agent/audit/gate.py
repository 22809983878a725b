"""Times of work on a GPU by the judge's clock, without a word of the candidate's process in between.

The candidate's process puts a call into the default stream of the GPU behind a gate: waits for numbers in
memory that the judge shares, and writes of numbers there, which the judge watches. In turns, on the GPU:

    OPEN    the judge: the call is in the stream
    COPIED  inputs lie on the GPU, masked (`masking`)
    COLD    the judge: it has cleared the caches, by a kernel of its own process
    AWAKE   the GPU is at work for the candidate's process again
    KEYED   the judge: here is the key
    READY   inputs are what is meant
    DONE    the call's work is done
    HANDED  results are in memory of the judge

So Python's time to start kernels does not count, as it does not in a loop that keeps the GPU busy, and what
runs before KEYED, on whatever stream, has nothing to compute from. Imports torch.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from typing import Any

from mucc.agent.audit.masking import WORD, Masking
from mucc.agent.audit.rooms import Room

torch: Any = importlib.import_module("torch")

OPEN, COPIED, COLD, AWAKE, KEYED, READY, DONE, HANDED, KEY = range(9)
"""Which number is which, each in a cache line of its own; the last is a key of two words of 64 bits."""

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
        self._masking = Masking(self._driver)

    def wait(self, which: int, number: int) -> None:
        """Have the stream wait until the judge has written a call's number."""
        self._at(self._wait_value, which, number, GREATER_OR_EQUAL)

    def unmask(self, source: Any, target: Any) -> None:
        """Have the stream make inputs of bytes that were masked, by the key that is there by then."""
        key = self._place + KEY * LINE * 4
        self._masking.apply(source.data_ptr(), target.data_ptr(), target.numel() // WORD, key)

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
        self._halves = memoryview(room.memory).cast("Q")
        self.number = 0
        self.patience = float("inf")
        """Seconds to wait for the next number before giving up."""

    def next(self) -> int:
        """Return the number of the next call."""
        self.number += 1
        return self.number

    def open(self) -> int:
        """Open the gate; return the time in ns."""
        return self._written(OPEN)

    def cold(self) -> None:
        """Let the candidate's stream go on: the caches are cleared."""
        self._written(COLD)

    def keyed(self, key: tuple[int, int]) -> int:
        """Write the key that unmasks inputs, where the GPU reads it; return the time in ns."""
        for n, half in enumerate(key):
            self._halves[KEY * LINE // 2 + n] = half
        return self._written(KEYED)

    def _written(self, which: int) -> int:
        now = time.perf_counter_ns()
        self._words[which * LINE] = self.number
        return now

    def is_marked(self, which: int) -> bool:
        """Whether a number of this call is there already."""
        return self._words[which * LINE] == self.number

    def release(self) -> None:
        """Open all gates, so that no kernel waits for one while the process ends."""
        for which in (OPEN, COLD, KEYED):
            self._written(which)

    def seen(self, which: int, alive: Callable[[], None]) -> int:
        """Return the time in ns at which a number came. `alive` raises where nothing is to come any more."""
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
