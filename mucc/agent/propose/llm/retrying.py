"""Wait before a failed call is repeated."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST = 1.0
"""Seconds before the first further try, at the most."""

LONGEST = 60.0
"""Seconds before any, at the most, unless the provider asks for more."""

OBEYED = 300.0
"""The longest wait in seconds that a provider may ask for; a longer one fails the call."""


@dataclass
class Retrying:
    """Exponential backoff with full jitter, between all threads that ask one endpoint.

    Where a provider says how long to wait (Retry-After), all of them wait. `first` and `longest` are in
    seconds.
    """

    retries: int
    first: float = FIRST
    longest: float = LONGEST
    obeyed: float = OBEYED
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _until: float = 0.0

    def wait_for_turn(self) -> None:
        """Wait until the time that a provider asked for has passed."""
        with self._lock:
            left = self._until - self.clock()
        if left > 0:
            self.sleep(left)

    def wait(self, tries: int, after: float | None) -> bool:
        """Wait after the `tries`th failure, counted from 0; False where it should not be tried again."""
        if tries >= self.retries or (after is not None and after > self.obeyed):
            return False
        pause = min(self.longest, self.first * 2**tries) * self.chance()
        if after is None:
            self.sleep(pause)
            return True
        # What was asked for, and a little more, so that not all threads come back at once.
        with self._lock:
            self._until = max(self._until, self.clock() + after)
        self.sleep(after + min(pause, self.first))
        return True
