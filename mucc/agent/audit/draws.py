"""Random numbers of an audit: the ones that a solution is told do not reveal the others."""

from __future__ import annotations

import hashlib
import random


class Draws(random.Random):
    """A generator that hashes an audit's seed and a counter; the same seed gives the same numbers.

    A solution is told the seed of each call. `random.Random` is a Mersenne Twister, whose state, and with it
    the seeds of later inputs, can be computed from enough of its outputs.
    """

    def __init__(self, number: int):
        super().__init__(0)
        self._key = str(number).encode()
        self._drawn = 0

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""
        size = (k + 7) // 8
        self._drawn += 1
        found = hashlib.shake_256(b"%s %d" % (self._key, self._drawn)).digest(size)
        return int.from_bytes(found, "big") >> (8 * size - k)

    def random(self) -> float:
        """Return a random number in [0, 1)."""
        return self.getrandbits(53) * 2.0**-53
