"""What tests of processes wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HANG = 300.0
"""Seconds after which something counts as hanging, on a machine however slow or busy."""


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since the system did; None where it has ended, buried or not."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(fields[18])


def lives(pid: int) -> bool:
    """Whether a process has not ended."""
    return began(pid) is not None


def descendants(pid: int) -> list[int]:
    """The living processes that a process started, those that these started, and so on, as init sees them."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rsplit(")", 1)[1].split()[:2]
            if state not in "ZX":
                parents[int(path.parent.name)] = int(parent)
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def gone(pid: int) -> bool:
    """Whether a process ends before that counts as hanging; another one may get its number meanwhile."""
    first, until = began(pid), time.monotonic() + HANG
    while first is not None and began(pid) == first:
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


def wait_for(condition: Callable[[], bool]) -> None:
    """Until a condition holds; fails where it never seems to. A slow one is asked less often."""
    until = (asked := time.monotonic()) + HANG
    while not condition():
        now = time.monotonic()
        assert now < until
        time.sleep(min(max(0.002, 5 * (now - asked)), 0.05))
        asked = time.monotonic()
