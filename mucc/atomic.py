"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os


def replace_file(path: str, data: bytes, mode: int = 0o666) -> None:
    """Put `data` at `path` in one step. Raises OSError, and leaves nothing behind when it does."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
