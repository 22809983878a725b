"""Stop a process for a while, with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from mucc.process.tree import children

STOPPING = 0.05
"""Seconds to wait until all threads are stopped."""

POLL = 2e-5
"""Seconds between two polls: a thread needs a processor to stop, and polling may occupy that processor."""

AT_REST = (b"T", b"t", b"Z", b"X")
"""States of threads that do not run: stopped, traced, ended."""


def pause(pid: int, ancestor: int | None = None) -> list[int]:
    """Stop a process and all descendants of it, or of an `ancestor`, which goes on; return them, itself
    first."""
    found: list[int] = []
    until = time.monotonic() + STOPPING
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)  # at once: to find descendants takes a while
    while True:
        new = [p for p in (pid, *descendants(ancestor or pid)) if p not in found]
        for one in new:
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGSTOP)
        found += dict.fromkeys(new)
        if (not new and all(map(_rests, found))) or time.monotonic() >= until:
            return found
        time.sleep(POLL)


def resume(pids: Iterable[int]) -> int:
    """Let processes go on; return the time right before, in ns of `time.perf_counter_ns`."""
    now = time.perf_counter_ns()
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    return now


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def parent(pid: int) -> int | None:
    """Return the process that a process is a child of; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
    return None


def _rests(pid: int) -> bool:
    """Whether no thread of a process runs."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] not in AT_REST:
                    return False
    except OSError:  # it has ended
        pass
    return True
