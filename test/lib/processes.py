"""What tests of processes wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

HANG = 300.0
"""Seconds after which something counts as hanging, on a machine however slow or busy."""


def lives(pid: int) -> bool:
    """Whether a process has not ended; init may be slow to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int) -> bool:
    """Whether a process ends before that counts as hanging."""
    until = time.monotonic() + HANG
    while lives(pid):
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


def wait_for(condition: Callable[[], bool]) -> None:
    """Until a condition holds; fails where it never seems to."""
    until = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)
