"""Locks on the GPUs of this machine among a user's processes: exclusive to measure, shared otherwise.

Exclusive requests come first: a shared one waits while an exclusive one is pending. Threads of a process are
ordered by `_Turns`, processes by two lock files: the gate, then the room.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Generator

from mucc.files.process_lock import hold, let_go

PAUSE = 0.01
"""Seconds between two attempts to lock a file; a blocking attempt could not be interrupted."""


class _Turns:
    """A readers-writer lock for the threads of this process, in which writers take precedence."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.sharing = 0
        self.waiting = 0
        self.taken = False

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        with self.changed:
            self.waiting += 1
            try:
                self.changed.wait_for(lambda: not self.taken and not self.sharing)
                self.taken = True
            finally:
                self.waiting -= 1
                self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.taken = False
                self.changed.notify_all()

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        with self.changed:
            self.changed.wait_for(lambda: not self.taken and not self.waiting)
            self.sharing += 1
        try:
            yield
        finally:
            with self.changed:
                self.sharing -= 1
                self.changed.notify_all()


_turns: dict[str, _Turns] = {}
"""The turns of this process's threads, by the GPUs that they are about."""

_turns_lock = threading.Lock()


@contextlib.contextmanager
def exclusive_gpu(device: str | None = None) -> Generator[None]:
    """Hold the GPUs exclusively: no other mucc process of this user works on them. Waits for the lock.

    For what is timed, and as little else as possible. With `device`, a value of CUDA_VISIBLE_DEVICES that
    names one of the GPUs, only that one is held: others can be measured on at the same time.
    """
    every = _visible()
    if device is None or device == every:
        with _turns_of(every).alone(), _files(every, fcntl.LOCK_EX):
            yield
        return
    with (
        _turns_of(every).together(),
        _files(every, fcntl.LOCK_SH),
        _turns_of(device).alone(),
        _files(device, fcntl.LOCK_EX),
    ):
        yield


@contextlib.contextmanager
def shared_gpu() -> Generator[None]:
    """Hold a shared lock: no other mucc process of this user measures on the same GPUs.

    For work on a GPU that is not timed, and would disturb what is.
    """
    every = _visible()
    with _turns_of(every).together(), _files(every, fcntl.LOCK_SH):
        yield


def _visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "all")


def _turns_of(gpus: str) -> _Turns:
    with _turns_lock:
        return _turns.setdefault(gpus, _Turns())


@contextlib.contextmanager
def _files(gpus: str, kind: int) -> Generator[None]:
    with contextlib.ExitStack() as stack:
        with _file(gpus, "gate", kind):
            stack.enter_context(_file(gpus, "room", kind))
        yield


@contextlib.contextmanager
def _file(gpus: str, what: str, kind: int) -> Generator[None]:
    name = "".join(c if c.isalnum() else "-" for c in gpus)
    path = os.path.join(tempfile.gettempdir(), f"mucc-gpu-{os.getuid()}-{name}-{what}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # without a lock rather than not at all
        yield
        return
    hold(descriptor)
    try:
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(PAUSE)
        yield
    finally:
        let_go(descriptor)


def _after_fork() -> None:
    global _turns, _turns_lock
    _turns, _turns_lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
