"""The gate between compiling and timing: a folder with a file for each model that waits, or may go."""

from __future__ import annotations

import time
from pathlib import Path


def pass_gate(folder: Path, key: str) -> None:
    """Write `<key>.ready`, and wait for `<key>.go`: many processes compile at once, and are timed alone."""
    (folder / f"{key}.ready").touch()
    while not (folder / f"{key}.go").exists():
        time.sleep(0.05)


def is_ready(folder: Path, key: str) -> bool:
    """Whether a model waits at the gate."""
    return (folder / f"{key}.ready").exists()


def let_go(folder: Path, key: str) -> None:
    """Let a model pass the gate."""
    (folder / f"{key}.go").touch()
