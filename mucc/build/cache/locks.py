"""Locks between processes: lock files that are held while an entry is built.

flock(2) locks belong to an open file, so the system releases them when a process ends for any reason. The
holder of a lock removes its file, so that their number stays small; a process that acquires a lock checks
that the file is still in place, and tries again if not.

Temporary files and folders are locked in the same way while they are written. One that can be locked was
abandoned by a killed process.

Some network file systems have no such locks. Every attempt to lock succeeds there: two processes may then
build the same entry, which is safe because entries are renamed into place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import NamedTuple

from mucc.files import unfinished
from mucc.files.atomic import temporary_name
from mucc.files.process_lock import hold, holds, let_go

POLL = 0.02
"""The seconds between two attempts to get a lock that another process holds."""

ATTEMPTS = 100
"""The most attempts to create a file or folder that other processes keep removing."""


class Lock(NamedTuple):
    """A held lock: the path of the file and its descriptor."""

    path: str
    descriptor: int


def take(path: str) -> Lock | None:
    """Lock the file at `path`, which is created with its directory; None if another process holds the lock.

    Raises OSError if the file cannot be created.
    """
    return unfinished.create(path, lambda: _take(path))


def _take(path: str) -> Lock | None:
    for _ in range(ATTEMPTS):
        descriptor = _open(path, os.O_CREAT)
        try:
            _lock(descriptor)
            if is_at(descriptor, path):
                hold(descriptor)
                return Lock(path, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(f"'{path}' is removed over and over")


def wait(path: str, patience: float) -> Lock | None:
    """Take a lock, waiting up to `patience` seconds; None if it is still held then."""
    end = time.monotonic() + patience
    while (lock := take(path)) is None and time.monotonic() < end:
        time.sleep(POLL)
    return lock


def release(lock: Lock, *, remove: bool = True) -> None:
    """Release a lock, and remove its file."""
    unfinished.settled(lock.path)
    if remove and holds(lock.descriptor):
        with contextlib.suppress(OSError):
            os.unlink(lock.path)
    let_go(lock.descriptor)


def abandoned(path: str, *, folder: bool = False) -> Lock | None:
    """Lock an existing file or folder that no process has locked; None if it is locked or missing.

    Raises OSError on a file system without locks.
    """
    try:
        descriptor = os.open(path, (os.O_RDONLY if folder else os.O_RDWR) | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if not _lock(descriptor):
            raise OSError("no locks")
        if is_at(descriptor, path):
            hold(descriptor)
            return Lock(path, descriptor)
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def temporary_file(path: str) -> Lock:
    """Create and lock a temporary file next to `path`, with its directory. Raises OSError.

    The caller marks it as finished by `unfinished.settled`.
    """
    for _ in range(ATTEMPTS):
        temporary = temporary_name(path)
        if lock := unfinished.create(temporary, lambda name=temporary: _new_file(name)):
            return lock
    raise OSError(f"'{path}' is removed over and over")


def temporary_folder(path: str) -> Lock:
    """Create and lock a temporary folder next to `path`. Raises OSError."""
    for _ in range(ATTEMPTS):
        temporary = temporary_name(path)
        if lock := unfinished.create(temporary, lambda name=temporary: _new_folder(name)):
            return lock
    raise OSError(f"'{path}' is removed over and over")


def is_at(descriptor: int, path: str) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _new_file(path: str) -> Lock | None:
    descriptor = _open(path, os.O_CREAT | os.O_EXCL)
    return Lock(path, descriptor) if _kept(descriptor, path) else None


def _new_folder(path: str) -> Lock | None:
    with contextlib.suppress(FileNotFoundError):  # another process may remove the empty directory
        os.makedirs(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return Lock(path, descriptor) if _kept(descriptor, path) else None
    return None


def _open(path: str, flags: int) -> int:
    for _ in range(ATTEMPTS):
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)
        except FileNotFoundError:  # the directory is not there, or was removed as empty just now
            os.makedirs(os.path.dirname(path), exist_ok=True)
    raise OSError(f"the directory of '{path}' is removed over and over")


def _lock(descriptor: int) -> bool:
    """Lock an open file without waiting; False on a file system without locks. Raises BlockingIOError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _kept(descriptor: int, path: str) -> bool:
    """Lock a new file; closes it and returns False if another process has removed it as abandoned."""
    with contextlib.suppress(BlockingIOError):
        _lock(descriptor)
        if is_at(descriptor, path):
            return True
    os.close(descriptor)
    return False
