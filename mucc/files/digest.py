"""Hash texts and folders, for cache keys."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TypeAlias

FORMAT = "mucc-cache 2"
"""The format of cache entries; it is part of keys, so entries of other formats are never found."""

Part: TypeAlias = "str | bytes | tuple[Part, ...]"
"""An input of a key: text, bytes, or a nested sequence."""


def digest(*parts: Part) -> str:
    """Hash nested sequences of texts to 64 hexadecimal digits; boundaries between texts count."""
    state = hashlib.blake2b(FORMAT.encode(), digest_size=32)

    def add(part: Part) -> None:
        if isinstance(part, tuple):
            state.update(b"(%d:" % len(part))
            for inner in part:
                add(inner)
            return
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%d:" % len(data))
        state.update(data)

    add(parts)
    return state.hexdigest()


def tree_contents(*directories: str) -> tuple[Part, ...]:
    """Read names and contents of all files below directories, as parts of a key. Raises OSError."""
    parts: list[Part] = []
    for directory in directories:
        for path, _, _ in sorted(files_below(directory)):
            with open(path, "rb") as file:
                parts.append((os.path.relpath(path, directory), file.read()))
    return tuple(parts)


def files_below(directory: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size in bytes and modification time in ns of all files below a directory."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name == "__pycache__" or entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from files_below(entry.path)
            else:
                info = entry.stat()
                yield entry.path, info.st_size, info.st_mtime_ns
