"""Write files atomically."""

from __future__ import annotations

import contextlib
import os

from mucc.files import unfinished


def temporary_name(path: str) -> str:
    """Generate a temporary name next to `path` that is unique among threads, processes and machines."""
    return f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"


def replace_file(path: str, data: bytes, mode: int = 0o666) -> None:
    """Replace a file atomically. Raises OSError, after removing the temporary file."""
    temporary = temporary_name(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = unfinished.create(temporary, lambda: os.open(temporary, flags, mode))
    fill_and_rename(temporary, descriptor, path, data)


def fill_and_rename(temporary: str, descriptor: int, path: str, data: bytes) -> None:
    """Write `data` to a new file that is open as `descriptor`, and rename the file to `path`.

    The descriptor is closed afterwards, so a lock on the file lasts until the file is in its place. Raises
    OSError, and leaves nothing behind when it does.
    """
    try:
        # Closing a copy of the descriptor reports what a network file system failed to write.
        with open(os.dup(descriptor), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        unfinished.settled(temporary)
        os.close(descriptor)
