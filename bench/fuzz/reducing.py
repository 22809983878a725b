"""Shrink a source that fails: fewer lines, fewer tokens, that fail in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

_TOKEN = re.compile(rb"\s+|\w+|.", re.DOTALL)


def reduced(data: bytes, fails: Callable[[bytes], bool], seconds: float) -> bytes:
    """The shortest text found that `fails`, as `data` does, within a time."""
    until = time.monotonic() + seconds
    for split in (_lines, _TOKEN.findall):
        data = _with_less(split(data), fails, until)
    return data


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def _with_less(pieces: list[bytes], fails: Callable[[bytes], bool], until: float) -> bytes:
    """Leave runs of pieces out, long ones first, as long as what is left fails."""
    size = max(len(pieces) // 2, 1)
    while size:
        start, shrunk = 0, False
        while start < len(pieces) and time.monotonic() < until:
            left = pieces[:start] + pieces[start + size :]
            if left and fails(b"".join(left)):
                pieces, shrunk = left, True
            else:
                start += size
        size = size if shrunk and time.monotonic() < until else size // 2
    return b"".join(pieces)
