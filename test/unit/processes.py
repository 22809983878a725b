"""What tests of processes wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def gone(pid: int, seconds: float = 2.0) -> bool:
    """Whether a process ends within that time; init may be slow to bury it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def wait_for(condition: Callable[[], bool]) -> None:
    """Until a condition holds; fails where that takes 20 seconds."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)
