"""Entries that are used in place: a folder with files, and a checksum of them beside.

A folder is filled under a temporary name and put in its place by a rename; it leaves by a rename too, so
nobody finds half of one. It may leave, though, between being found and being used.
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
"""The file that holds the checksum of the others; its time is that of the last use."""

CHUNK = 1 << 20

Stamp = tuple[tuple[str, int, int, int], ...]
"""What can be seen of files without reading them: names, inodes, sizes, times."""

_verified: dict[str, Stamp] = {}
"""The folders that this process has read and found whole; hundreds of megabytes are read only once."""


class Damaged(Exception):
    """A folder is not what was stored."""


class NewFolder:
    """A folder that is being filled, at `temporary`. Raises OSError where it cannot be made."""

    def __init__(self, path: str):
        self.path = path
        self._lock = locks.temporary_folder(path)
        self.temporary = self._lock.path

    def close(self, level: str, key: str) -> int:
        """Write the checksum; the size of all files in bytes. Raises OSError."""
        line = f"{FORMAT} {_checksum(self._lock.descriptor, level, key)}\n"
        with open(os.path.join(self.temporary, CHECKSUM), "w", encoding="ascii") as file:
            file.write(line)
        return sum(size for _, _, size, _ in _stamp(self._lock.descriptor)) + len(line)

    def place(self) -> None:
        """Put the folder at its path, in the place of another one if need be. Raises OSError."""
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
        """Let go of the folder, and remove what was not put in its place."""
        remove(self.temporary)
        unfinished.settled(self.temporary)
        os.close(self._lock.descriptor)


def verify(path: str, level: str, key: str, *, again: bool = False) -> int | None:
    """Check the folder of an entry, once in this process or `again`; the descriptor of its checksum file.

    None where there is none. Raises Damaged, and OSError where it cannot be read.
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
    """Take a folder away in one step."""
    trash = temporary_name(path)
    try:
        unfinished.create(trash, lambda: os.rename(path, trash) or trash)
    except FileNotFoundError:
        return
    _verified.pop(path, None)
    remove(trash)
    unfinished.settled(trash)


def remove(path: str) -> None:
    """Remove a folder that nobody looks for any more, as far as it can be removed."""
    shutil.rmtree(path, ignore_errors=True)


def size_and_time(path: str) -> tuple[int, int]:
    """The bytes in a folder, and when it was last used in ns. Raises OSError."""
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
    """The checksum of the files in an open folder, none of which may be a folder. Raises OSError."""
    state = hashlib.blake2b(f"{level}/{key}\n".encode(), digest_size=32)
    for name in _names(folder):
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        with open(descriptor, "rb", buffering=0) as file:
            state.update(f"{name} {os.fstat(descriptor).st_size}\n".encode())
            while chunk := file.read(CHUNK):
                state.update(chunk)
    return state.hexdigest()
