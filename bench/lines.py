"""JSON objects in the lines of a file that survives being killed at any point.

Lines are only appended, each by one write. What a write that was cut short has left is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Lines:
    """Read the objects of a file, and append further ones. Raises OSError where the file cannot be used."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.exists() else b""
        self.found = [value for line in text.splitlines() for value in _objects(line)]
        """The objects that the file held when it was opened."""
        if text and not text.endswith(b"\n"):
            self._append(b"\n")

    def add(self, value: Mapping[str, Any]) -> None:
        """Append an object. It is on the disk when this returns."""
        self._append(json.dumps(value).encode() + b"\n")

    def _append(self, data: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _objects(line: bytes) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(line)
    except ValueError:
        return  # cut short
    if isinstance(value, dict):
        yield value
