"""The interface and helpers of the functions that interpret operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.arrays import Arrays


class Machine(Protocol):
    """The part of the interpreter that operations use: an array library, and the sizes of the dims."""

    arrays: Arrays
    sizes: dict[str, int]

    def shape(self, type: Any) -> tuple[int, ...]:
        """Return the run-time extents of a tensor type."""
        ...

    def narrowed(self, value: Any, type: Any) -> Any:
        """Round a computed value to its dtype if that is narrower than f32, as for operands of products."""
        ...

    def factor(self, op: Operation, operand: SSAValue, value: Any) -> Any:
        """Return an operand as a product reads it: a computed value is rounded to its dtype first."""
        ...


Meaning = Callable[[Machine, Any, tuple[Any, ...]], Any]
"""A function from an operation and its operands' float64 (or bool) arrays to the array of its result."""


def taken(value: Any, axis: int, numbers: Sequence[int]) -> Any:
    """Take elements along an axis by index."""
    return value[(slice(None),) * axis + (list(numbers),)]


def along(count: int, axis: int, rank: int, numbers: Any) -> Any:
    """Reshape a vector of `count` numbers to lie along one of `rank` axes."""
    return numbers.reshape(tuple(count if i == axis else 1 for i in range(rank)))
