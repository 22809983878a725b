"""What the meanings of operations are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.arrays import Arrays


class Machine(Protocol):
    """What runs a kernel: a library of arrays, and the sizes of the kernel's dims."""

    arrays: Arrays

    def shape(self, type: Any) -> tuple[int, ...]:
        """The run-time extents of a tensor type."""
        ...

    def narrowed(self, value: Any, type: Any) -> Any:
        """What products read of a value that is computed: it is rounded where that is narrower than f32."""
        ...

    def factor(self, op: Operation, operand: SSAValue, value: Any) -> Any:
        """What a product reads for an operand: what is computed is rounded to its dtype first."""
        ...


Meaning = Callable[[Machine, Any, tuple[Any, ...]], Any]
"""From an operation and its operands' float64 (or bool) arrays to its result's."""


def taken(value: Any, axis: int, numbers: Sequence[int]) -> Any:
    """The elements of these numbers along an axis."""
    return value[(slice(None),) * axis + (list(numbers),)]


def along(count: int, axis: int, rank: int, numbers: Any) -> Any:
    """A vector of `count` numbers that lies along one axis of `rank`."""
    return numbers.reshape(tuple(count if i == axis else 1 for i in range(rank)))
