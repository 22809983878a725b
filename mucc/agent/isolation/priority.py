"""Lower the priority of work that is not timed below work that is. Imports no torch."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Mapping
from functools import cache

from mucc.api import build
from mucc.api.build import Job, Result

BEHIND, AHEAD, FIRST = 10, -10, -15
"""Niceness of work that can wait, of work that cannot, and of a thread that has to interrupt the latter."""


def patient_run(
    job: Job,
    tools: Mapping[str, str],
    *,
    keep: str | None = None,
    cancelled: threading.Event | None = None,
) -> Result:
    """Run a job of a pool at the lowest priority. A pool gives each job a thread, from which its processes
    inherit."""
    _set(BEHIND)
    return build.run(job, tools, keep=keep, cancelled=cancelled)


@contextlib.contextmanager
def behind() -> Generator[None]:
    """Run this thread and what it starts at low priority; do nothing if the priority could not be raised
    again.
    """
    with _at(BEHIND):
        yield


@contextlib.contextmanager
def ahead() -> Generator[None]:
    """Raise the priority of this thread meanwhile, where that is permitted."""
    with _at(AHEAD):
        yield


@contextlib.contextmanager
def first() -> Generator[None]:
    """Raise the priority of this thread above that of `ahead` meanwhile, where that is permitted."""
    with _at(FIRST):
        yield


@contextlib.contextmanager
def _at(niceness: int) -> Generator[None]:
    if not _is_free():
        yield
        return
    before = os.getpriority(os.PRIO_PROCESS, 0)
    _set(niceness)
    try:
        yield
    finally:
        _set(before)


@cache
def _is_free() -> bool:
    """Whether a thread may lower its niceness again, which takes a privilege; tried on a thread that ends
    then."""
    found: list[bool] = []

    def attempt() -> None:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        found.append(_set(before + 1) and _set(before))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]


def _set(niceness: int) -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)  # of this thread, on Linux
    except OSError:
        return False
    return True
