"""What a limit of time charges processes for: not the time that other work on the machine takes from them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence

from mucc.process.tree import children

PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Processors that there are for everybody."""

WAITS_FOR_A_DISK = b"D"
"""The state of a thread that waits for a disk, or for a process by `vfork`."""


Times = dict[int, dict[int, tuple[int, int]]]
"""Of processes and their threads: how long these were on a processor, and waited for one, in ns."""


class Charge:
    """The seconds that processes had for their work: those that went by, less those that others took.

    Others take time while threads wait for processors that others have, and while a process waits for a disk,
    of which the system does not tell whose work delays it. Who sleeps is charged for it. Where the system
    does not tell, `seconds` are those that went by, as `wall` are. `computed` are seconds of processors, of
    all threads together.
    """

    def __init__(self) -> None:
        self.seconds = self.wall = self.computed = 0.0
        self._looked = 0.0
        self._seen: Times = {}

    def begin(self, pids: Iterable[int]) -> None:
        """Charge what goes by from now on."""
        self._looked, self._seen = time.monotonic(), _times(pids)

    @property
    def age(self) -> float:
        """The seconds since processes were looked at."""
        return time.monotonic() - self._looked

    def add(self, pids: Sequence[int], beside: Sequence[int] = (), *, counts: bool = True) -> None:
        """Charge processes for the time since they were looked at, unless it does not count. What others take
        from processes `beside` them, which these wait for in turn, is left out as well."""
        wall, before = self.age, self._seen
        self.begin((*pids, *beside))
        on, taken = self._had(before, pids, wall)
        _, taken_beside = self._had(before, beside, wall)
        self.wall += wall
        self.computed += on
        if counts and not _waits_for_a_disk(pids):
            self.seconds += max(wall - taken - taken_beside, 0.0)

    def _had(self, before: Times, pids: Iterable[int], wall: float) -> tuple[float, float]:
        """Return for how many seconds processes were on processors, and how many of those that went by others
        have taken from them."""
        on = waited = 0.0
        for pid in pids:
            for thread, (on_now, waited_now) in self._seen.get(pid, {}).items():
                on_then, waited_then = before.get(pid, {}).get(thread, (0, 0))
                on += max(on_now - on_then, 0) / 1e9
                waited += max(waited_now - waited_then, 0) / 1e9
        waited = waited_for_others(waited, on, wall * PROCESSORS)
        return on, wall * waited / max(wall, on + waited, 1e-9)


def waited_for_others(waited: float, on: float, whole: float) -> float:
    """Return how much of the time that threads of a process waited for a processor is due to others.

    The process was on processors for the time `on`, of the `whole` time that all processors had. Others had
    the rest of that at the most: threads that wait for each other are no noise, or a solution with idle
    threads that spin could make its own.
    """
    return min(waited, max(whole - on, 0.0))


def scheduled(pid: int) -> dict[int, tuple[int, int]]:
    """Return of each thread of a process how long it was on a processor, and waited for one, in ns; nothing
    where the system does not tell."""
    found: dict[int, tuple[int, int]] = {}
    with contextlib.suppress(OSError):
        tasks = f"/proc/{pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                fields = file.read().split()
            if len(fields) > 1:
                found[int(task)] = int(fields[0]), int(fields[1])
    return found


def _times(pids: Iterable[int]) -> Times:
    return {pid: scheduled(pid) for pid in pids}


def _waits_for_a_disk(pids: Sequence[int]) -> bool:
    """Whether a process waits for a disk. One that has children may wait for these."""
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
            if state == WAITS_FOR_A_DISK and not children(pid):
                return True
    return False
