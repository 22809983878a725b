"""List the processes of this machine, and kill all descendants of this one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

PAUSE = 0.005
"""Seconds between two checks whether killed processes have ended."""


class Process(NamedTuple):
    """A process; `started` distinguishes it from a later process with the same number."""

    pid: int
    parent: int
    group: int
    session: int
    started: int


def table() -> dict[int, Process]:
    """List all running processes by number; empty without /proc."""
    found: dict[int, Process] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdecimal():
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", "rb") as file,
            ):
                state, *fields = file.read().rpartition(b")")[2].split()
                if state not in (b"Z", b"X"):
                    parent, group, session, *_ = map(int, fields)
                    found[int(name)] = Process(int(name), parent, group, session, int(fields[18]))
    return found


def descendants(of: int, but: Collection[int] = (), groups: Iterable[int] = ()) -> dict[int, Process]:
    """Find the descendants of a process, with all members of their groups and sessions, by number.

    `groups` are further process groups to be taken for descendants. Left out are `but`, and whatever shares
    group or session with the ancestor without descending from it.
    """
    everybody = table()
    me = everybody.get(of)
    common = {me.group, me.session} if me else set[int]()
    known = set(groups) - common
    found: dict[int, Process] = {}
    grown = True
    while grown:
        grown = False
        for pid, process in everybody.items():
            if pid in found or pid in but or pid == of:
                continue
            if process.parent == of or process.parent in found or {process.group, process.session} & known:
                found[pid] = process
                known |= {process.group, process.session} - common
                grown = True
    return found


def end(known: Iterable[Process], seconds: float, but: Collection[int] = ()) -> None:
    """Kill the given processes and all descendants of this one, repeatedly for at most `seconds`.

    `but` names descendants that are left alone.
    """
    until = time.monotonic() + seconds
    known = list(known)
    while True:
        now = table()
        alive = {p.pid: p for p in known if p.pid not in but and same(now.get(p.pid), p)}
        alive |= descendants(os.getpid(), but, {p.group for p in known})
        if not alive:
            return
        known += alive.values()
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= until:
            return
        time.sleep(PAUSE)


def same(one: Process | None, other: Process) -> bool:
    """Whether two entries are the same process, not a later one with the same number."""
    return one is not None and one.started == other.started
