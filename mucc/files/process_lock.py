"""A lock of the threads of one process, which a forked child finds free."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager


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
