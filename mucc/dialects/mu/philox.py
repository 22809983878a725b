"""Draw random numbers from a counter and a key by Philox4x32-10, on arrays of whole numbers.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. `random.cuh` has the
same in C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mucc.dialects.mu.arrays import Arrays

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)
"""What is added to the key's words from round to round."""
ROUNDS = 10

_MASK = 0xFFFFFFFF


def _product(value: Any, factor: int) -> tuple[Any, Any]:
    """Return the high and the low word of a product of words, without more than 63 bits in between."""
    low, high = (value & 0xFFFF) * factor, (value >> 16) * factor
    low = low + ((high & 0xFFFF) << 16)
    return (high >> 16) + (low >> 32), low & _MASK


def philox(counter: Sequence[Any], key: tuple[Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Return four random words for four words of a counter and two of a key, each from 0 to 2^32 - 1."""
    a, b, c, d = counter
    k, l = key  # noqa: E741
    for _ in range(ROUNDS):
        (high0, low0), (high1, low1) = _product(a, MULTIPLIERS[0]), _product(c, MULTIPLIERS[1])
        a, b, c, d = high1 ^ b ^ k, low1, high0 ^ d ^ l, low0
        k, l = (k + STEPS[0]) & _MASK, (l + STEPS[1]) & _MASK  # noqa: E741
    return a, b, c, d


def uniform(arrays: Arrays, shape: Sequence[int], seed: Any, stream: int) -> Any:
    """Draw a number from 0 to below 1 for each element of a shape, in steps of 2^-24.

    Element i in row-major order is word i % 4 of the counter (i / 4, 0, stream, 0) with the key (seed, 0);
    the second word of the counter has the upper bits of i / 4.
    """
    count = 1
    for extent in shape:
        count *= extent
    blocks = arrays.whole(arrays.float64(list(range(-(-count // 4)))))
    zero = blocks * 0
    key = (arrays.whole(seed) & _MASK) + zero
    words = philox((blocks & _MASK, blocks >> 32, zero + (stream & _MASK), zero), (key, zero))
    numbers = arrays.xp.stack(words, -1).reshape(-1)[:count]
    return arrays.float64(numbers >> 8).reshape(tuple(shape)) * 2.0**-24
