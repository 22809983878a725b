"""Budget the GPU's memory among processes of the agent and of benchmarks."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

from mucc.diagnostics.core import DiagnosticError

Found = TypeVar("Found")

CONTEXT = 2 << 30
"""Bytes of a process besides tensors: context, workspaces of libraries, the buffer that flushes the cache."""

COPIES = 10
"""How many times the tensors of a problem are there at once while it is judged: given, in float64, with what
PyTorch keeps between operations. A process that audits an activation of 12.9 GB took 121 GiB on an H200."""


class Room:
    """A memory budget in bytes, granted in order of requests; None is no limit."""

    def __init__(self, total: int | None):
        self.total = total
        self._taken = 0
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, wanted: int) -> Generator[None]:
        """Reserve bytes, at most all; waits until they are free."""
        if self.total is None:
            yield
            return
        wanted, me = min(wanted, self.total), object()
        with self._changed:
            self._queue.append(me)
            try:
                self._changed.wait_for(lambda: self._queue[0] is me and self._fits(wanted))
                self._taken += wanted
            finally:
                self._queue.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken -= wanted
                self._changed.notify_all()

    def try_take(self, wanted: int) -> int | None:
        """Take that many bytes, at the most all, without waiting: how many were taken, None where they are
        not free. For who waits in another way, and calls `give_back`."""
        with self._changed:
            wanted = wanted if self.total is None else min(wanted, self.total)
            if self._queue or not self._fits(wanted):
                return None
            self._taken += wanted
            return wanted

    def give_back(self, taken: int) -> None:
        """Return the bytes that `try_take` took."""
        with self._changed:
            self._taken -= taken
            self._changed.notify_all()

    def _fits(self, wanted: int) -> bool:
        return self.total is None or self._taken + wanted <= self.total

    def within(self, wanted: int, work: Callable[[], Found], short: Callable[[Found], bool]) -> Found:
        """Run work within an amount of GPU memory; work that runs out (`short`, or by its exception) runs
        again with all of it.
        """
        if self.total is None:
            return work()
        with self.take(wanted):
            try:
                found = work()
                if not short(found):
                    return found
            except DiagnosticError as error:
                if not out_of_memory(str(error)):
                    raise
        with self.take(self.total):
            return work()


def wanted_by(moved: float) -> int:
    """Estimate the GPU memory in bytes of a process for a problem, from the bytes the problem moves."""
    return CONTEXT + COPIES * int(moved)


def out_of_memory(text: str) -> bool:
    """Whether a message of PyTorch or the driver reports exhausted memory."""
    return "OutOfMemoryError" in text or "out of memory" in text
