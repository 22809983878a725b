"""Time limits of calls that the main thread makes."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def limited(seconds: float | None, error: BaseException) -> Generator[None]:
    """Raise an error in the main thread, which has to be the caller, once `seconds` are over; None: no limit.

    SIGALRM does it, so that calls of the system end, too; a call of native code ends first.
    """

    def stop(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
