"""Operands of contractions as values: what they are, how they lie in memory, and how many bytes they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mucc.target.facts import WIDEST_ACCESS


@dataclass(frozen=True)
class Form:
    """What an operand is: by itself a dense matrix whose elements are multiplied as they are stored."""

    def stored_bytes(self, element_bytes: int) -> float:
        """Bytes that an element takes in memory, of so many as it is multiplied."""
        return element_bytes


@dataclass(frozen=True)
class Sparse(Form):
    """A matrix with the 2:4 pattern: values of half of its elements, and 4 bits for each chunk.

    A chunk is 4 elements, or 2 of 32 bits.
    """

    def stored_bytes(self, element_bytes: int) -> float:
        return element_bytes / 2 + (0.25 if element_bytes == 4 else 0.125)


@dataclass(frozen=True)
class Narrow(Form):
    """A matrix of elements of 4 or 8 bits, which the kernel converts to the format of the other operand.

    `group` elements along K share a scale, and a zero if there are `zeros`; 0 where there are no scales.
    """

    bits: int
    group: int = 0
    zeros: bool = False

    def stored_bytes(self, element_bytes: int) -> float:
        return self.bits / 8


@dataclass(frozen=True)
class Scaled(Form):
    """A matrix in which blocks share a scale: `block` rows of A, or columns of B, by 128 along K."""

    block: int


@dataclass(frozen=True)
class Gathered(Form):
    """Rows of a matrix that are picked by number."""


@dataclass(frozen=True)
class Grouped(Form):
    """A matrix for each group of the other operand's rows; the groups' ends are known on the device only."""


DENSE = Form()


class Operand(NamedTuple):
    """A matrix that a contraction multiplies.

    `k_major` says that K is its contiguous axis. `granule` is the number of bytes, at most 16, that its rows
    are known to be multiples of.
    """

    k_major: bool = True
    granule: int = WIDEST_ACCESS
    form: Form = DENSE

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.form, Sparse)

    @property
    def is_gathered(self) -> bool:
        return isinstance(self.form, Gathered)

    @property
    def is_grouped(self) -> bool:
        return isinstance(self.form, Grouped)

    @property
    def narrow(self) -> Narrow | None:
        """How it is converted; None where it is multiplied as it is stored."""
        return self.form if isinstance(self.form, Narrow) else None

    @property
    def block(self) -> int | None:
        """How many of its rows, or columns, share a scale; None without block scales."""
        return self.form.block if isinstance(self.form, Scaled) else None

    @property
    def copied(self) -> Operand:
        """A copy of the rows that are picked, one after the other; itself where none are."""
        return self._replace(form=DENSE) if self.is_gathered else self
