"""Random numbers of an audit, of which those that a solution is told tell nothing of the others."""

from __future__ import annotations

import hashlib
import random


class Draws(random.Random):
    """Numbers from a hash of an audit's seed and a counter, the same for the same seed.

    A solution is told the seed of each call. From enough outputs of a Mersenne Twister, which `random.Random`
    is, its state follows, and with it the seeds of inputs that are still to come.
    """

    def __init__(self, number: int):
        super().__init__(0)
        self._key = str(number).encode()
        self._drawn = 0

    def getrandbits(self, k: int, /) -> int:
        """Return a whole number of so many random bits."""
        size = (k + 7) // 8
        self._drawn += 1
        found = hashlib.shake_256(b"%s %d" % (self._key, self._drawn)).digest(size)
        return int.from_bytes(found, "big") >> (8 * size - k)

    def random(self) -> float:
        """Return a random number from 0 to 1, without 1."""
        return self.getrandbits(53) * 2.0**-53
