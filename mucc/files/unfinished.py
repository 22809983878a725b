"""Track incomplete files and folders, which an interrupted process removes before it exits."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")

PATIENCE = 0.2
"""The seconds that `remove_all` waits for a thread in `create`."""

_lock = threading.Lock()
_paths: dict[str, None] = {}


def create(path: str, make: Callable[[], Made]) -> Made:
    """Create a file or folder by `make`, and remember its path until `settled`, unless it returns None or
    raises. For any thread.

    After `remove_all` nothing is created any more: a thread that tries waits until the process exits.
    """
    with _lock:
        made = make()
        if made is not None:
            _paths[path] = None
        return made


def settled(path: str) -> None:
    """Forget a path that is complete or removed."""
    _paths.pop(path, None)


def remove_all() -> None:
    """Remove all incomplete files and folders at the end of a process; later calls of `create` block."""
    import shutil

    _lock.acquire(timeout=PATIENCE)
    for path in list(_paths):
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _after_fork() -> None:
    """Forget the paths of the parent process in a forked child."""
    global _lock
    _lock = threading.Lock()
    _paths.clear()


os.register_at_fork(after_in_child=_after_fork)
