"""Cache entries that are folders of files used in place, with a checksum file.

A folder is filled under a temporary name and renamed into place; it is removed by a rename too, so that
readers never find a partial folder. It may still be removed between a lookup and its use.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil

from mucc.build.cache import locks
from mucc.files import unfinished
from mucc.files.atomic import temporary_name
from mucc.files.digest import FORMAT

CHECKSUM = "checksum.mucc"
"""The file with the checksum of the others; its modification time is that of the last use."""

CHUNK = 1 << 20

Stamp = tuple[tuple[str, int, int, int], ...]
"""Names, inodes, sizes and times of the files in a folder."""

_verified: dict[str, Stamp] = {}
"""Folders that this process has verified, so that hundreds of megabytes are read only once."""


class Damaged(Exception):
    """The checksum of a folder is wrong."""


class NewFolder:
    """A new folder to fill at `temporary`. Raises OSError if it cannot be created."""

    def __init__(self, path: str):
        self.path = path
        self._lock = locks.temporary_folder(path)
        self.temporary = self._lock.path

    def close(self, level: str, key: str) -> int:
        """Write the checksum, and return the size of all files in bytes. Raises OSError."""
        line = f"{FORMAT} {_checksum(self._lock.descriptor, level, key)}\n"
        with open(os.path.join(self.temporary, CHECKSUM), "w", encoding="ascii") as file:
            file.write(line)
        return sum(size for _, _, size, _ in _stamp(self._lock.descriptor)) + len(line)

    def place(self) -> None:
        """Rename the folder to its path, replacing another one. Raises OSError."""
        for _ in range(locks.ATTEMPTS):
            try:
                os.rename(self.temporary, self.path)
            except OSError:
                if not os.path.isdir(self.path):
                    raise
                discard(self.path)
            else:
                _verified[self.path] = _stamp(self._lock.descriptor)
                return
        raise OSError(f"'{self.path}' is made over and over")

    def leave(self) -> None:
        """Release the folder, and remove it if it was not placed."""
        remove(self.temporary)
        unfinished.settled(self.temporary)
        os.close(self._lock.descriptor)


def verify(path: str, level: str, key: str, *, again: bool = False) -> int | None:
    """Verify the folder of an entry, once per process or `again`; returns its open checksum file.

    Returns None if there is no folder. Raises Damaged, and OSError if the folder cannot be read.
    """
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        checksum = os.open(CHECKSUM, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            stamp = _stamp(folder)
            if again or _verified.get(path) != stamp:
                if os.read(checksum, 200) != f"{FORMAT} {_checksum(folder, level, key)}\n".encode():
                    raise Damaged
                _verified[path] = stamp
        except BaseException:
            os.close(checksum)
            raise
        return checksum
    except (Damaged, FileNotFoundError) as error:
        if not locks.is_at(folder, path):  # it was taken away while it was read
            return None
        raise Damaged from error
    finally:
        os.close(folder)


def discard(path: str) -> None:
    """Remove a folder atomically, by a rename."""
    trash = temporary_name(path)
    try:
        unfinished.create(trash, lambda: os.rename(path, trash) or trash)
    except FileNotFoundError:
        return
    _verified.pop(path, None)
    remove(trash)
    unfinished.settled(trash)


def remove(path: str) -> None:
    """Remove a folder as far as possible, ignoring errors."""
    shutil.rmtree(path, ignore_errors=True)


def size_and_time(path: str) -> tuple[int, int]:
    """Return the size of a folder in bytes, and the time of its last use in ns. Raises OSError."""
    size, used = 0, os.stat(path).st_mtime_ns
    with os.scandir(path) as files:
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                info = file.stat(follow_symlinks=False)
                size += info.st_size
                if file.name == CHECKSUM:
                    used = info.st_mtime_ns
    return size, used


def _names(folder: int) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != CHECKSUM)


def _stamp(folder: int) -> Stamp:
    infos = ((name, os.stat(name, dir_fd=folder, follow_symlinks=False)) for name in _names(folder))
    return tuple((name, info.st_ino, info.st_size, info.st_mtime_ns) for name, info in infos)


def _checksum(folder: int, level: str, key: str) -> str:
    """Compute the checksum of the files in an open folder without subfolders. Raises OSError."""
    state = hashlib.blake2b(f"{level}/{key}\n".encode(), digest_size=32)
    for name in _names(folder):
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        with open(descriptor, "rb", buffering=0) as file:
            state.update(f"{name} {os.fstat(descriptor).st_size}\n".encode())
            while chunk := file.read(CHUNK):
                state.update(chunk)
    return state.hexdigest()
