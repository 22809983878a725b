"""Query the cores and main memory available to this process, within control group limits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

NO_LIMIT = 1 << 60
"""Bytes; version 1 of control groups writes a number near 2**63 where there is no limit."""


def cores(root: str = "/") -> int:
    """Count the cores that this process may use, by its affinity and the quotas of control groups.

    A quota of a part of a core counts as a whole one. `root` is where /proc and /sys are looked for.
    """
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        count = os.cpu_count() or 1
    for directory in _groups("cpu", root):
        quota, period = _quota(directory)
        if quota > 0 and period > 0:
            count = min(count, -(-quota // period))
    return max(count, 1)


def available_memory(root: str = "/") -> int | None:
    """Return the bytes of main memory available to new processes; None if unknown."""
    found = re.search(r"MemAvailable:\s*(\d+) kB", _read(os.path.join(root, "proc/meminfo")))
    room = [int(found[1]) * 1024] if found else []
    for directory in _groups("memory", root):
        limits = [_number(directory, name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
        limit = min((n for n in limits if n is not None), default=NO_LIMIT)
        used = _number(directory, "memory.current") or _number(directory, "memory.usage_in_bytes") or 0
        if limit < NO_LIMIT:
            room.append(max(limit - used + _reclaimable(directory), 0))
    return min(room, default=None)


def _groups(controller: str, root: str) -> Iterator[str]:
    """Yield the directories of the control groups of this process, for cgroup versions 1 and 2.

    A group's limits hold for the groups inside it, so the walk goes up to the outermost. In a container
    the outermost is often all that can be seen.
    """
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            tops = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            tops = [f"sys/fs/cgroup/{controllers}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for top in tops:
            for depth in range(len(parts), -1, -1):
                directory = os.path.join(root, top, *parts[:depth])
                if os.path.isdir(directory):
                    yield directory


def _quota(directory: str) -> tuple[int, int]:
    """Return a group's microseconds of processor time per period, and the period; zeros if it has none."""
    if match := re.fullmatch(r"(\d+) (\d+)\s*", _read(os.path.join(directory, "cpu.max"))):
        return int(match[1]), int(match[2])
    quota, period = (_number(directory, f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return quota or 0, period or 0


def _reclaimable(directory: str) -> int:
    """Bytes that count as used but that the kernel gives up on demand: cached files."""
    text = _read(os.path.join(directory, "memory.stat"))
    found = re.search(r"^total_inactive_file (\d+)", text, re.M) or re.search(
        r"^inactive_file (\d+)", text, re.M
    )
    return int(found[1]) if found else 0


def _number(directory: str, name: str) -> int | None:
    text = _read(os.path.join(directory, name)).strip()
    return int(text) if text.isdecimal() else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
