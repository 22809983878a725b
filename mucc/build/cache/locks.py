"""Locks between processes: a file that is locked while something of its name is being made.

flock(2) locks belong to an open file, so the system lets go of them when a process ends, however it
ends. A lock file is removed by whoever holds its lock, so that their number stays small; whoever
gets a lock looks whether the file is still in its place, and starts again where it is not.

Temporary files and folders are locked in the same way by those that write them. One whose lock can
be had was left behind by a process that was killed.

Some network file systems have no such locks. Everybody gets every lock there: two processes may then make
the same thing, and the renames keep entries right.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import NamedTuple

from mucc.files import unfinished
from mucc.files.atomic import temporary_name

POLL = 0.02
"""The seconds between two attempts to get a lock that another process holds."""

ATTEMPTS = 100
"""How often a file or folder is made anew that others remove at once; more than this is not a race."""


class Lock(NamedTuple):
    """A lock that is held: the file and its descriptor."""

    path: str
    descriptor: int


def take(path: str) -> Lock | None:
    """Lock the file at `path`, which is made with its directory; None where another holds the lock.

    Raises OSError where the file cannot be made.
    """
    return unfinished.create(path, lambda: _take(path))


def _take(path: str) -> Lock | None:
    for _ in range(ATTEMPTS):
        descriptor = _open(path, os.O_CREAT)
        try:
            _lock(descriptor)
            if is_at(descriptor, path):
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
    """Like `take`, but wait for the lock; None where it is still held after `patience` seconds."""
    end = time.monotonic() + patience
    while (lock := take(path)) is None and time.monotonic() < end:
        time.sleep(POLL)
    return lock


def release(lock: Lock, *, remove: bool = True) -> None:
    """Let go of a lock, and remove its file."""
    unfinished.settled(lock.path)
    if remove:
        with contextlib.suppress(OSError):
            os.unlink(lock.path)
    # Closing is not enough where a process was forked since: it has the same open file.
    with contextlib.suppress(OSError):
        fcntl.flock(lock.descriptor, fcntl.LOCK_UN)
    os.close(lock.descriptor)


def abandoned(path: str, *, folder: bool = False) -> Lock | None:
    """The lock of a file or folder that is there and that nobody holds; None for any other.

    Raises OSError where that cannot be known, as on a file system without locks.
    """
    try:
        descriptor = os.open(path, (os.O_RDONLY if folder else os.O_RDWR) | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if not _lock(descriptor):
            raise OSError("no locks")
        if is_at(descriptor, path):
            return Lock(path, descriptor)
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def temporary_file(path: str) -> Lock:
    """A new file beside `path`, locked; the directory is made too. Unfinished until whoever asked for it says
    otherwise. Raises OSError."""
    for _ in range(ATTEMPTS):
        temporary = temporary_name(path)
        if lock := unfinished.create(temporary, lambda name=temporary: _new_file(name)):
            return lock
    raise OSError(f"'{path}' is removed over and over")


def temporary_folder(path: str) -> Lock:
    """The same for a folder."""
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
    """Lock an open file, or raise BlockingIOError at once; False where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _kept(descriptor: int, path: str) -> bool:
    """Lock what was just made; False, and it is closed, where someone took it for left behind before that."""
    with contextlib.suppress(BlockingIOError):
        _lock(descriptor)
        if is_at(descriptor, path):
            return True
    os.close(descriptor)
    return False
