"""The decisions that make a random program, as a list of numbers that can be replayed and shrunk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


class Choices:
    """Makes decisions at random, or repeats recorded ones.

    Every decision is a number below the count of its options, and the first option is the simplest. A replay
    that runs out of numbers goes on with zeros, so any list of numbers stands for a program, and a shorter
    list or smaller numbers for a simpler one.
    """

    def __init__(self, seed: int | str | None = None, given: Sequence[int] = ()):
        self._random = random.Random(seed) if seed is not None else None
        self._given = tuple(given)
        self.made: list[int] = []
        """The decisions so far."""

    def number(self, count: int) -> int:
        """A number from 0 to `count - 1`."""
        place = len(self.made)
        if self._random is not None:
            chosen = self._random.randrange(count)
        else:
            chosen = min(self._given[place], count - 1) if place < len(self._given) else 0
        self.made.append(chosen)
        return chosen

    def pick(self, options: Sequence[Option]) -> Option:
        """One of the options; list one several times to make it likelier."""
        return options[self.number(len(options))]

    def chance(self, part: int, whole: int) -> bool:
        """True in `part` of `whole` cases; False is the simpler answer."""
        return self.number(whole) >= whole - part
