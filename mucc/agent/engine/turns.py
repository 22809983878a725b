"""Schedule tasks: a limit on tasks that run in parallel, or one budget of attempts that all tasks share."""

from __future__ import annotations

import math
import threading
from typing import Protocol

FIRST = math.inf
"""The expected gain of a task before it is measured."""


class Turns(Protocol):
    """A scheduler of tasks, for any thread. All methods raise Interrupted after `stop`."""

    def begin(self, key: str) -> None:
        """Begin a task; wait where only some tasks may run at a time."""
        ...

    def enter(self, key: str, gain: float, wanted: int) -> int:
        """Wait until a round of at most `wanted` attempts may begin; return the number of attempts
        granted."""
        ...

    def leave(self, key: str, unspent: int = 0) -> None:
        """End a round, and give its unspent attempts back."""
        ...

    def spent(self) -> bool:
        """Whether the shared budget is spent."""
        ...

    def end(self, key: str) -> None:
        """End a task."""
        ...

    def stop(self) -> None:
        """Begin nothing more."""
        ...


class Interrupted(Exception):
    """The run was asked to stop: unwind without storing anything more."""


class Seats:
    """Runs up to `seats` tasks at a time in their order, each to its end."""

    def __init__(self, seats: int):
        self._free = seats
        self._stopped = False
        self._changed = threading.Condition()

    def begin(self, key: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._stopped)
            if self._stopped:
                raise Interrupted
            self._free -= 1

    def enter(self, key: str, gain: float, wanted: int) -> int:
        if self._stopped:
            raise Interrupted
        return wanted

    def leave(self, key: str, unspent: int = 0) -> None:
        pass

    def spent(self) -> bool:
        return False

    def end(self, key: str) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class Shared:
    """One budget of attempts for all tasks: rounds go to those that may gain the most.

    At any time only the `seats` unfinished tasks with the largest expected gain may begin a round; a task
    near its bound waits until the others have ended or gain less. `left` is what is left of the budget.
    """

    def __init__(self, seats: int, left: int, keys: list[str]):
        self._seats, self._left = seats, left
        self._gains = dict.fromkeys(keys, FIRST)
        self._running: set[str] = set()
        self._stopped = False
        self._changed = threading.Condition()

    def begin(self, key: str) -> None:
        pass

    def enter(self, key: str, gain: float, wanted: int) -> int:
        with self._changed:
            self._gains[key] = gain
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or self._may(key, wanted))
            if self._stopped:
                raise Interrupted
            self._running.add(key)
            granted = min(wanted, self._left)
            self._left -= granted
            return granted

    def _may(self, key: str, wanted: int) -> bool:
        if len(self._running) >= self._seats:
            return False
        if wanted and not self._left and self._running:
            return False  # a running round may give attempts back
        places = {k: n for n, k in enumerate(self._gains)}
        order = sorted(self._gains, key=lambda k: (-self._gains[k], places[k]))
        return key in order[: self._seats]

    def leave(self, key: str, unspent: int = 0) -> None:
        with self._changed:
            self._running.discard(key)
            self._left += unspent
            self._changed.notify_all()

    def spent(self) -> bool:
        with self._changed:
            return self._left <= 0 and not self._running

    def end(self, key: str) -> None:
        with self._changed:
            self._running.discard(key)
            self._gains.pop(key, None)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
