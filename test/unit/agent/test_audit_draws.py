"""Seeds of an audit: the same for the same number, and none follows from others."""

from __future__ import annotations

import random

from mucc.agent.audit.cases import plan, timed_cases
from mucc.agent.audit.draws import Draws

WORDS = 624
"""Words of 32 bits that are the state of a Mersenne Twister."""


def unmixed(y: int) -> int:
    """Undo what a Mersenne Twister does to a word of its state before it gives that out."""
    y ^= y >> 18
    y ^= y << 15 & 0xEFC60000
    x = y
    for _ in range(5):
        x = y ^ (x << 7 & 0x9D2C5680)
    y = x
    for _ in range(3):
        x = y ^ x >> 11
    return x & 0xFFFFFFFF


def foreseen(outputs: list[int]) -> int:
    """What a Mersenne Twister would give next."""
    other = random.Random()
    other.setstate((3, (*map(unmixed, outputs), WORDS), None))
    return other.getrandbits(32)


def test_what_was_drawn_does_not_tell_what_comes():
    common, own = random.Random(7), Draws(7)
    assert foreseen([common.getrandbits(32) for _ in range(WORDS)]) == common.getrandbits(32)
    assert foreseen([own.getrandbits(32) for _ in range(WORDS)]) != own.getrandbits(32)


def test_an_audit_can_be_repeated():
    one, same, other = ([*plan(rng), *timed_cases(rng, 0, 30, 9)] for rng in map(Draws, (3, 3, 4)))
    assert one == same != other


def test_numbers_are_spread():
    rng = Draws(1)
    found = [rng.random() for _ in range(4000)]
    assert min(found) >= 0 and max(found) < 1 and abs(sum(found) / 4000 - 0.5) < 0.03
    assert {rng.randrange(5) for _ in range(200)} == set(range(5))
    assert sorted(rng.sample(range(9), 9)) == list(range(9)) and rng.getrandbits(3) < 8
