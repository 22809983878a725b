"""Bytes that pass between kernels and memory, as polynomials in open dims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from mucc.dialects.mu.types import Dim, Shaped, TensorType, dtype_bits
from mucc.library.extents import multiply, polynomial

LARGE = 8192
"""What an open dim counts as where no typical size is known."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A number of bytes: for each product of open dims, the factor that it is multiplied with."""

    terms: Mapping[tuple[str, ...], float] = field(default_factory=dict[tuple[str, ...], float])

    @staticmethod
    def of(type: Attribute, extents: Iterable[Dim] | None = None) -> Traffic:
        """One pass over a tensor, or as many of its elements as `extents` span; a bool counts as a byte."""
        shaped = Shaped.of(type)
        if isinstance(type, TensorType) and shaped.element_type != i1:
            bits = type.bits_per_element
        else:
            bits = 8 if shaped.element_type == i1 else dtype_bits(shaped.element_type)
        count = polynomial(multiply(tuple(shaped.dims if extents is None else extents)))
        return Traffic({names: bits / 8 * factor / count.divisor for names, factor in count.terms})

    @staticmethod
    def sum(parts: Iterable[Traffic]) -> Traffic:
        """All of them together."""
        terms: dict[tuple[str, ...], float] = {}
        for part in parts:
            for names, factor in part.terms.items():
                terms[names] = terms.get(names, 0) + factor
        ordered = sorted(terms.items(), key=lambda term: (-len(term[0]), term[0]))
        return Traffic({names: factor for names, factor in ordered if factor})

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic.sum((self, other))

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic.sum((self, other * -1))

    def __mul__(self, factor: float) -> Traffic:
        return Traffic({names: factor * old for names, old in self.terms.items()})

    @property
    def open_dims(self) -> frozenset[str]:
        """The dims that the number depends on."""
        return frozenset(name for names in self.terms for name in names)

    def at(self, sizes: Mapping[str, int]) -> float:
        """Return the number of bytes for values of dims; a dim without a value counts as large."""
        return sum(f * math.prod(sizes.get(n, LARGE) for n in names) for names, f in self.terms.items())

    def text(self, sizes: Mapping[str, int]) -> str:
        """Format the number with its unit; as a sum of products of dims where one of them has no value."""
        if not self.terms:
            return "nothing"
        if self.open_dims <= sizes.keys():
            return bytes_text(self.at(sizes))
        terms = ("*".join((str(plain(factor)), *names)) for names, factor in self.terms.items())
        return " + ".join(terms).replace("+ -", "- ") + " B"


def plain(value: float) -> int | float:
    """Return a whole number as an int."""
    return int(value) if value == int(value) else value


def bytes_text(number: float) -> str:
    """Format a number of bytes with three digits."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.{1 if abs(number) < 100 * size else 0}f} {unit}"
    return f"{plain(number)} B"


NOTHING = Traffic()
