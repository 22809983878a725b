"""End a command soon after SIGINT, SIGTERM or SIGHUP, even inside C code.

The handler raises in the main thread, so that the command unwinds: builds are called off, terminals
restored. A thread that reads the interpreter's wake-up descriptor for signals ends what does not unwind in
time, such as a long call into C, or a wait for another thread. Either way all processes that were started
are killed, and files that are not whole are removed, before this process exits.

    interrupts.install()
    ...                                  # raises KeyboardInterrupt or Terminated
    interrupts.leave(status)
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from mucc.files import unfinished
from mucc.process import processes

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

UNWINDING = 0.4
"""Seconds that a command has to unwind; a second signal ends it at once."""

KILLING = 0.3
"""Seconds that killed processes have to be gone."""

SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"
"""The escape codes that restore a terminal whose display could not be removed."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; `number` is the number of the signal."""

    def __init__(self, number: int = signal.SIGTERM):
        super().__init__()
        self.number = number


farewell: Callable[[int], str] | None = None
"""The function that renders the last message on stderr, by signal number, if a command does not unwind."""

PIECE = 4096
"""Bytes that a pipe takes without blocking if it is writable at all."""

_first: int | None = None
_killing = False
_speaking, _leaving = threading.Lock(), threading.Lock()
_ends: tuple[int, int] | None = None
_before: list[processes.Process] = []


def status_of(number: int) -> int:
    """Return the exit status of a process ended by a signal, as shells report it."""
    return 128 + number


def name_of(number: int) -> str:
    """Return the name of a signal, such as `SIGINT`."""
    return signal.Signals(number).name


def number_of(error: KeyboardInterrupt | Terminated) -> int:
    """Return the number of the signal that raised an exception."""
    return error.number if isinstance(error, Terminated) else signal.SIGINT


def install() -> None:
    """Install signal handlers, except for signals that this process was started to ignore."""
    global _ends
    _ends = os.pipe()
    for end in _ends:
        os.set_inheritable(end, False)
    os.set_blocking(_ends[1], False)
    signal.set_wakeup_fd(_ends[1], warn_on_full_buffer=False)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)
    threading.Thread(target=_watch, args=(_ends[0],), name="mucc-signals", daemon=True).start()


def is_ending() -> bool:
    """Whether a signal ends this process: what it started may have been killed, and did not fail."""
    return _first is not None or _killing


def may_speak() -> bool:
    """Whether this thread prints the last message; true for the first caller only."""
    return _ends is None or _speaking.acquire(blocking=False)


def leave(status: int) -> NoReturn:
    """Exit without finalising the interpreter, which takes tens of milliseconds."""
    if _first is not None:
        _clear()
    os._exit(status)


def _raise(number: int, _frame: object) -> None:
    """Raise at the first signal; later signals must not interrupt cleanup."""
    global _first
    if _first is not None:
        return
    _first = number
    _look()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def _watch(end: int) -> None:
    """Wait for a signal, and end the process if it does not unwind in time."""
    import select

    number = _heard(end)
    until = time.monotonic() + UNWINDING
    _look()
    while (left := until - time.monotonic()) > 0:
        if select.select([end], [], [], left)[0] and _heard(end):
            break
    _force(number)


def _look() -> None:
    """Record the descendants of this process, because unwinding may kill links in the process tree."""
    _before.extend(processes.descendants(os.getpid()).values())


def _heard(end: int) -> int:
    """Wait for the next handled signal and return its number."""
    while (number := os.read(end, 1)[0]) not in SIGNALS:
        pass
    return number


def _force(number: int) -> NoReturn:
    """Exit without unwinding."""
    import select

    try:
        text = farewell(number) if farewell and may_speak() else ""
        data = (SHOW_CURSOR if os.isatty(2) else b"") + text.encode("utf-8", errors="replace")
        while data and select.select([], [2], [], 0)[1]:  # nobody may read at the other end
            data = data[os.write(2, data[:PIECE]) :]
    except Exception:  # stderr may be closed
        pass
    try:
        _clear()
    finally:
        os._exit(status_of(number))


def _clear() -> None:
    """Kill descendants and remove incomplete files; only the first caller returns."""
    global _killing
    _leaving.acquire()
    _killing = True
    from mucc.process import reaper

    spared = (reaper.pid,) if reaper.pid else ()
    processes.end(_before, KILLING, spared)
    unfinished.remove_all()
    reaper.dismiss()


def _after_fork() -> None:
    """Restore default signal handlers in a forked child, which its parent ends."""
    global _ends, _first, _killing
    if _ends is None:
        return
    signal.set_wakeup_fd(-1)
    for end in _ends:
        os.close(end)
    _ends, _first, _killing = None, None, False
    for number in SIGNALS:
        if signal.getsignal(number) is _raise:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


os.register_at_fork(after_in_child=_after_fork)
