"""Locks of one process, which a forked child neither finds taken nor keeps."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

_locked: set[int] = set()


class ProcessLock:
    """A re-entrant lock for modules: a child that is forked while a thread holds it has a new one.

    What it guards must be whole at any moment, since that thread does not go on in the child.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold the lock, waiting for it."""
        with self._lock:
            yield


_properties: dict[str, list[Any]] = {}
"""The cached properties of each module of mucc that was loaded when this process was forked."""

_known: set[str] = set()
"""The modules among these that had been loaded whole."""

_loaded: tuple[int, str] | None = None
"""How many modules there were, of mucc and others, and the last one, where all were whole."""


def find_properties() -> None:
    """Find the cached properties of mucc before a fork.

    The parent does it, once: a child that goes through all classes copies the memory that these are in.
    """
    global _loaded
    now = len(sys.modules), next(reversed(sys.modules))
    if now == _loaded:
        return
    _loaded = now
    for name in [name for name in sys.modules if name.startswith("mucc.") and name not in _known]:
        module = sys.modules[name]
        kinds = [kind for kind in list(vars(module).values()) if isinstance(kind, type)]
        members = [member for kind in kinds for member in list(vars(kind).values())]
        _properties[name] = [member for member in members if isinstance(member, cached_property)]
        if getattr(module.__spec__, "_initializing", False):  # another thread loads it: more classes come
            _loaded = None
        else:
            _known.add(name)


def renew_properties() -> None:
    """Free the locks of cached properties of mucc in a forked child.

    Python 3.11 has such a lock for each property, whatever the object; a thread of the parent may hold it.
    """
    for members in _properties.values():
        for member in members:
            member.lock = threading.RLock()


def hold(descriptor: int) -> None:
    """Have forked children close a locked file: it stays locked until all processes have closed it."""
    _locked.add(descriptor)


def let_go(descriptor: int) -> None:
    """Unlock and close a file of `hold`. Does nothing in a forked child, whose parent may hold it yet."""
    if descriptor in _locked:
        _locked.discard(descriptor)
        # Closing is not enough where a process is being forked: it has the same open file.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def holds(descriptor: int) -> bool:
    """Whether this process holds a file: false in a forked child of the process that does."""
    return descriptor in _locked


def _after_fork() -> None:
    for descriptor in _locked:
        os.close(descriptor)
    _locked.clear()


os.register_at_fork(after_in_child=_after_fork)
