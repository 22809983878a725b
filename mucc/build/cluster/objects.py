"""Files as objects of a cluster, by their contents: what several tasks need is sent once to each machine."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

SMALL = 64 << 10
"""Bytes below which a file travels with its task."""

KEPT = 512 << 20
"""Bytes of objects that this process keeps for later tasks."""


class Objects:
    """The objects of this process: contents by digest. Thread-safe."""

    def __init__(self, ray: Any, kept: int = KEPT):
        self._ray = ray
        self._kept = kept
        self._found: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, data: bytes) -> Any:
        """Return what stands for `data` in a task: itself, or a reference.

        Raises ObjectStoreFullError and OutOfDiskError of Ray.
        """
        if len(data) < SMALL:
            return data
        key = digest_of(data)
        with self._lock:
            if (known := self._found.get(key)) is not None:
                self._found.move_to_end(key)
                return known[0]
        reference = self._ray.put(data)
        with self._lock:
            if key not in self._found:
                self._found[key] = (reference, len(data))
                self._bytes += len(data)
            while self._bytes > self._kept and len(self._found) > 1:
                _, (_, size) = self._found.popitem(last=False)
                self._bytes -= size
        return reference

    def drop(self) -> None:
        """Drop all references, so that the object store can free them; running tasks keep theirs."""
        with self._lock:
            self._found.clear()
            self._bytes = 0


def digest_of(data: bytes) -> str:
    """Return the digest by which contents are known, 40 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def pieces(data: bytes) -> list[bytes]:
    """Cut contents into one piece or more of fewer than `SMALL` bytes, which travel with calls."""
    return [data[start : start + SMALL - 1] for start in range(0, len(data) or 1, SMALL - 1)]


def contents(ray: Any, given: Any) -> bytes:
    """Return the bytes that `put` stands for, on the machine of the task."""
    return given if isinstance(given, bytes) else ray.get(given)
