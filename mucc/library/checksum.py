"""Append a checksum to a library, so that damage is detected before its code runs.

An ELF file may have bytes after its last section: the loader ignores them. A file without a seal (built by
hand, or stripped since) is accepted as it is.
"""

from __future__ import annotations

import hashlib
from typing import Literal

_MARK = b"\nmucc-seal-sha256:"
_SIZE = len(_MARK) + 32


def seal(data: bytes) -> bytes:
    """Append a checksum to a file's bytes."""
    return data + _MARK + hashlib.sha256(data).digest()


def seal_state(data: bytes | memoryview) -> Literal["good", "broken", "none"]:
    """Verify the checksum of a file: `good`, `broken`, or `none` without a checksum."""
    view = memoryview(data)
    if len(view) < _SIZE or bytes(view[-_SIZE:-32]) != _MARK:
        return "none"
    return "good" if hashlib.sha256(view[:-_SIZE]).digest() == bytes(view[-32:]) else "broken"
