"""What the meanings of operations are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mucc.dialects.mu.arrays import Arrays


class Machine(Protocol):
    """What runs a kernel: a library of arrays, and the sizes of the kernel's dims."""

    arrays: Arrays

    def shape(self, type: Any) -> tuple[int, ...]:
        """The run-time extents of a tensor type."""
        ...


Meaning = Callable[[Machine, Any, tuple[Any, ...]], Any]
"""From an operation and its operands' float64 (or bool) arrays to its result's."""


def taken(value: Any, axis: int, numbers: Sequence[int]) -> Any:
    """The elements of these numbers along an axis."""
    return value[(slice(None),) * axis + (list(numbers),)]


def along(count: int, axis: int, rank: int, numbers: Any) -> Any:
    """A vector of `count` numbers that lies along one axis of `rank`."""
    return numbers.reshape(tuple(count if i == axis else 1 for i in range(rank)))
