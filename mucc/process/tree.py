"""Wait for a process with its descendants, measure its memory, and end it."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto

from mucc.process import reaper

TICK = 0.1
"""Seconds between two checks of a running job for cancellation, and of its memory."""

DYING = 2.0
"""The seconds to wait for killed processes before their folder is removed."""

MUCH = 1 << 30
"""Bytes of memory of several processes from which on it is worth to find out what they share."""

ROUNDS = 10
"""The most rounds of killing strays, which may start new processes meanwhile."""


class End(Enum):
    """The reason why waiting for a process ended."""

    OF_ITSELF = auto()
    CALLED_OFF = auto()
    OVERDUE = auto()


class Family:
    """The leader of a process group, and its descendants.

    `peak` is the most memory in bytes that one of them was seen with. `bury` waits for a leader that is
    somebody else's child, once it is killed: its exit status, and its peak in KiB. `ancestor` is a process
    that those become children of whose parents have ended; its children count, it does not.
    """

    def __init__(
        self,
        pid: int,
        bury: Callable[[], tuple[int, int]] | None = None,
        ancestor: int | None = None,
    ):
        self.pid = pid
        self.peak = 0
        self._pids = [pid]
        self._ancestor = ancestor
        self._bury = bury
        self._poller: select.poll | None = None
        self._fd = -1
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or forbidden in an old container
            self._fd = os.pidfd_open(pid)
            self._poller = select.poll()
            self._poller.register(self._fd, select.POLLIN)

    def wait(self, timeout: float | None, stops: Sequence[threading.Event]) -> End:
        """Wait until the leader has ended, `timeout` seconds have passed, or one of `stops` is set."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = TICK if deadline is None else min(TICK, deadline - time.monotonic())
            if self._ended(max(left, 0)):
                return End.OF_ITSELF
            if any(stop.is_set() for stop in stops):
                return End.CALLED_OFF
            self._sample()
            if deadline is not None and time.monotonic() >= deadline:
                return End.OVERDUE

    def _sample(self) -> None:
        """Look at all."""
        roots = [self.pid] if self._ancestor is None else children(self._ancestor)
        found = [_sampled(root) for root in dict.fromkeys((self.pid, *roots))]
        self.peak = max(self.peak, *(peak for peak, _ in found))
        self._pids = [pid for _, pids in found for pid in pids]

    @property
    def pids(self) -> Sequence[int]:
        """All when they were last looked at."""
        return self._pids

    @property
    def held(self) -> int:
        """The bytes that those take together now (`held`)."""
        return held(self._pids)

    def _ended(self, seconds: float) -> bool:
        """Wait for the leader's end for at most `seconds`, without reaping it; returns whether it ended."""
        if self._poller is not None:
            return bool(self._poller.poll(seconds * 1000))
        until, pause = time.monotonic() + seconds, 0.0005
        while True:
            with contextlib.suppress(InterruptedError):
                if self._bury is not None and _is_dead(self.pid):
                    return True
                try:
                    if (
                        self._bury is None
                        and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
                    ):
                        return True
                except ChildProcessError:
                    return True
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.01)

    def end(self) -> tuple[int, int]:
        """Kill the process group and all descendants, and wait for the leader; returns its status and its
        peak memory in bytes."""
        if self._ancestor is None:
            self._kill_descendants()
        self._kill(signal.SIGKILL)
        reaper.forget(self.pid)
        if self._fd >= 0:
            os.close(self._fd)
        try:
            status, peak = self._bury() if self._bury else _wait(self.pid)
        except ChildProcessError:  # the program around us ignores SIGCHLD: the system has waited
            return 0, self.peak
        finally:
            until = time.monotonic() + DYING
            while self._kill(0) and _lives(self.pid) and time.monotonic() < until:
                time.sleep(0.005)
        # Linux hands the peak of the parent down to its child, so what is not above ours says nothing.
        if peak > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            self.peak = max(self.peak, peak * (1 if sys.platform == "darwin" else 1024))
        return status, self.peak

    def _kill_descendants(self) -> None:
        """Kill descendants in any group; new ones are looked for until none is left."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGSTOP)
        known = {self.pid}
        for _ in range(ROUNDS):
            new = {*_sampled(self.pid)[1]} - known
            for pid in new:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            known |= new
            if not new:
                return

    def _kill(self, number: int) -> bool:
        """Send a signal to the group; returns whether it has processes."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _lives(group: int) -> bool:
    """Whether a process group has processes other than zombies, which init may be slow to reap."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return False
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            state, _, leader = file.read().rpartition(b")")[2].split()[:3]
            if int(leader) == group and state not in (b"Z", b"X"):
                return True
    return False


def end_strays(mark: str, folder: str | None = None) -> None:
    """Kill all processes that inherited a variable of the environment (`NAME=value`) or work in the folder.

    These are processes that have left the group of their family; new ones are looked for until none is left.
    """
    for _ in range(ROUNDS):
        if not (found := _strays(os.fsencode(mark), folder)):
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _strays(mark: bytes, folder: str | None) -> list[int]:
    found: list[int] = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            inherited = mark in file.read().split(b"\0")
            if inherited or (folder is not None and _within(os.readlink(f"/proc/{name}/cwd"), folder)):
                found.append(int(name))
    return found


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_dead(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _wait(pid: int) -> tuple[int, int]:
    """Reap a child process; returns its exit status, and its peak memory as by getrusage."""
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss


def _sampled(pid: int) -> tuple[int, list[int]]:
    """Return the peak in bytes of the largest process among a process and its descendants, 0 if unknown, and
    the numbers of all.
    """
    peak, pids = _number(f"/proc/{pid}/status", r"VmHWM:\s*(\d+)") * 1024, [pid]
    for child in children(pid):
        theirs, more = _sampled(child)
        peak, pids = max(peak, theirs), [*pids, *more]
    return peak, pids


def children(pid: int) -> list[int]:
    """Return the children of a process; none where it has ended, or the system does not tell."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def held(pids: Sequence[int]) -> int:
    """Return how many bytes processes take together, what they share counted once if it is much.

    These are their memory, shared memory, files in memory, and what lies in sockets. Files that are on their
    way to another process, which nothing tells the size of, count as `MUCH` each.
    """
    anonymous, shared = (_resident(pids, "status", name) for name in ("RssAnon", "RssShmem"))
    if anonymous + shared > MUCH:
        anonymous, shared = (_resident(pids, "smaps_rollup", name) for name in ("Pss_Anon", "Pss_Shmem"))
    files: dict[int, int] = {}
    sockets: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for one in descriptors:
                with contextlib.suppress(OSError):
                    target = os.readlink(one.path)
                    if target.startswith("/memfd:"):
                        found = os.stat(one.path)
                        files[found.st_ino] = found.st_blocks * 512
                    elif target.startswith("socket:") and target not in sockets:
                        sockets[target] = _number(f"/proc/{pid}/fdinfo/{one.name}", r"scm_fds:\s*(\d+)")
    waiting = len(sockets) * _number("/proc/sys/net/core/wmem_default", r"(\d+)")
    # A file that is mapped may be open as well.
    return anonymous + max(shared, sum(files.values())) + waiting + sum(sockets.values()) * MUCH


def _resident(pids: Sequence[int], file: str, name: str) -> int:
    """Return the sum of what files of processes in `/proc` tell in KiB, in bytes."""
    return sum(_number(f"/proc/{pid}/{file}", rf"{name}:\s*(\d+)") for pid in pids) * 1024


def _number(path: str, pattern: str) -> int:
    """Return the number in a line of a file of `/proc`, 0 where there is none."""
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        if found := re.search(pattern, file.read()):
            return int(found[1])
    return 0
