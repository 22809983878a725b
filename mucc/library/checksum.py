"""A checksum behind the end of a file, so that a damaged library is noticed before any of it runs.

An ELF file may have bytes after its last section: the loader ignores them. A file without a seal (built by
hand, or stripped since) is accepted as it is.
"""

from __future__ import annotations

import hashlib
from typing import Literal

_MARK = b"\nmucc-seal-sha256:"
_SIZE = len(_MARK) + 32


def seal(data: bytes) -> bytes:
    """The file's bytes with a seal behind them."""
    return data + _MARK + hashlib.sha256(data).digest()


def seal_state(data: bytes | memoryview) -> Literal["good", "broken", "none"]:
    """Whether the bytes are what was sealed."""
    view = memoryview(data)
    if len(view) < _SIZE or bytes(view[-_SIZE:-32]) != _MARK:
        return "none"
    return "good" if hashlib.sha256(view[:-_SIZE]).digest() == bytes(view[-32:]) else "broken"
