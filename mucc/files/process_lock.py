"""Locks of the threads of one process, which a forked child finds free."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast


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


def renew_properties() -> None:
    """Free the locks of cached properties of mucc in a forked child.

    Python 3.11 has such a lock for each property, whatever the object; a thread of the parent may hold it.
    """
    for name in [name for name in sys.modules if name.startswith("mucc.")]:
        for kind in list(vars(sys.modules[name]).values()):
            for member in list(vars(kind).values()) if isinstance(kind, type) else ():
                if isinstance(member, cached_property):
                    cast("Any", member).lock = threading.RLock()
