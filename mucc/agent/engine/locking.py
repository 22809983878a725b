"""Lock a run, so that one process at a time works on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator

from mucc.api.diagnostics import Diagnostic, DiagnosticError


@contextlib.contextmanager
def locked(folder: str) -> Generator[None]:
    """Hold the lock of the run in `folder`, which is made if it does not exist.

    Raises MU7204 where another process holds it, MU7203 where the folder cannot be written.
    """
    path = os.path.join(folder, "lock")
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise DiagnosticError(Diagnostic("MU7203", f"cannot write {folder}: {error.strerror}")) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            helps = ("wait for it, or choose another folder with -o",)
            raise DiagnosticError(
                Diagnostic("MU7204", f"another process works on {folder}", helps=helps)
            ) from None
        yield
    finally:
        os.close(descriptor)
