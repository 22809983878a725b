"""Extents that follow from dims, such as `2*N`, `K/128` and `M+N`: canonical form, text, value.

A `Dim` is a number, the name of a dim, or the canonical text of arithmetic on dims. Equal extents have equal
texts, so that dims are compared as they are. The arithmetic is that of polynomials in dims over a common
divisor. `/` is exact: who writes `K/128` promises that 128 divides K (`divisible`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import Any

Dim = int | str
"""An extent: a fixed number, the name of a run-time dim, or the canonical text of arithmetic on dims."""

Monomial = tuple[str, ...]
"""The dims of a product, in sorted order; the empty product is 1."""


class ExtentError(ValueError):
    """The text is no extent, or the extent has no value for the given dims."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """The sum of `terms`, each a product of dims and its factor, over `divisor`.

    `of` builds the canonical form: equal polynomials are equal objects.
    """

    terms: tuple[tuple[Monomial, int], ...]
    divisor: int = 1

    @staticmethod
    def of(terms: Mapping[Monomial, int], divisor: int = 1) -> Polynomial:
        """Build the canonical form: no zero terms, no common factor, added terms before subtracted ones."""
        common = gcd(divisor, *terms.values())
        kept = [(names, factor // common) for names, factor in terms.items() if factor]
        kept.sort(key=lambda term: (term[1] < 0, -len(term[0]), term[0]))
        return Polynomial(tuple(kept), divisor // common)

    @staticmethod
    def number(value: int) -> Polynomial:
        return Polynomial.of({(): value})

    def __add__(self, other: Polynomial) -> Polynomial:
        sums: dict[Monomial, int] = {}
        for one, divisor in ((self, other.divisor), (other, self.divisor)):
            for names, factor in one.terms:
                sums[names] = sums.get(names, 0) + factor * divisor
        return Polynomial.of(sums, self.divisor * other.divisor)

    def __neg__(self) -> Polynomial:
        return Polynomial.of({names: -factor for names, factor in self.terms}, self.divisor)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        sums: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                names = tuple(sorted((*left, *right)))
                sums[names] = sums.get(names, 0) + a * b
        return Polynomial.of(sums, self.divisor * other.divisor)

    def over(self, divisor: int) -> Polynomial:
        """Divide by a positive number."""
        return Polynomial.of(dict(self.terms), self.divisor * divisor)

    def with_values(self, sizes: Mapping[str, int]) -> Polynomial:
        """Replace dims by their values where `sizes` has them."""
        result = Polynomial.number(0)
        for names, factor in self.terms:
            known = prod(sizes[name] for name in names if name in sizes)
            result += Polynomial.of({tuple(n for n in names if n not in sizes): factor * known})
        return result.over(self.divisor)

    @property
    def constant(self) -> int | None:
        """The value of an integer without dims; None for other polynomials."""
        if not self.terms:
            return 0
        ((names, factor), *more) = self.terms
        return factor if not names and not more and self.divisor == 1 else None

    @property
    def constant_term(self) -> int:
        """The numerator's term without dims."""
        return next((factor for names, factor in self.terms if not names), 0)

    @property
    def names(self) -> tuple[str, ...]:
        """The dims in it, in sorted order."""
        return tuple(sorted({name for names, _ in self.terms for name in names}))

    @property
    def numerator(self) -> Polynomial:
        return Polynomial(self.terms)

    def text(self, names: Mapping[str, str] | None = None, space: str = "") -> str:
        """Print as arithmetic of C and of the language, dims as `names` calls them.

        `space` goes around `+` and `-`, and around `*` and `/` too.
        """
        words: list[str] = []
        for dims, factor in self.terms:
            factors = [str(abs(factor))] if abs(factor) != 1 or not dims else []
            factors += [names[d] if names is not None else d for d in dims]
            sign = "-" if factor < 0 else "+" if words else ""
            words.append(f"{space}{sign}{space}" if words else sign)
            words.append(f"{space}*{space}".join(factors))
        text = "".join(words) or "0"
        if self.divisor == 1:
            return text
        return (
            f"({text})" * (len(self.terms) > 1)
            + text * (len(self.terms) <= 1)
            + (f"{space}/{space}{self.divisor}")
        )

    @property
    def dim(self) -> Dim:
        """The extent in its canonical form."""
        constant = self.constant
        return self.text() if constant is None else constant

    def at(self, sizes: Mapping[str, Any]) -> Any:
        """Return the value for given dims, which may be symbolic. Raises KeyError for a dim without a value.

        A division that leaves a remainder is rounded down; `value` refuses it.
        """
        total = sum(factor * prod(sizes[name] for name in names) for names, factor in self.terms)
        return total if self.divisor == 1 else total // self.divisor


_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_]\w*)|([-+*/()]))", re.ASCII)


class _Reader:
    """Parser of an extent: sums of products of names, numbers and brackets; `/` by a number."""

    def __init__(self, text: str):
        self.text = text
        self.tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            if (match := _TOKEN.match(text, place)) is None:
                raise ExtentError(f"'{text}' is no extent")
            self.tokens.append(match.group().strip())
            place = match.end()
        self.tokens.append("")
        self.place = 0

    def take(self, *wanted: str) -> str:
        token = self.tokens[self.place]
        if not token or (wanted and token not in wanted):
            return ""
        self.place += 1
        return token

    def whole(self) -> Polynomial:
        value = self.sum()
        if self.tokens[self.place]:
            raise ExtentError(f"'{self.text}' is no extent")
        return value

    def sum(self) -> Polynomial:
        value = -self.product() if self.take("-") else self.product()
        while sign := self.take("+", "-"):
            term = self.product()
            value = value + term if sign == "+" else value - term
        return value

    def product(self) -> Polynomial:
        value = self.atom()
        while sign := self.take("*", "/"):
            factor = self.atom()
            if sign == "*":
                value = value * factor
                continue
            if (number := factor.constant) is None or number < 1:
                raise ExtentError(f"'{self.text}' divides by something other than a positive number")
            value = value.over(number)
        return value

    def atom(self) -> Polynomial:
        if self.take("("):
            value = self.sum()
            if not self.take(")"):
                raise ExtentError(f"'{self.text}' is no extent")
            return value
        token = self.take()
        if token.isdigit():
            return Polynomial.number(int(token))
        if token.isidentifier():
            return Polynomial.of({(token,): 1})
        raise ExtentError(f"'{self.text}' is no extent")


@lru_cache(maxsize=4096)
def polynomial(dim: Dim) -> Polynomial:
    """Return the polynomial of an extent, in any spelling. Raises ExtentError."""
    return Polynomial.number(dim) if isinstance(dim, int) else _Reader(dim).whole()


def canonical(text: str) -> Dim:
    """Return the canonical form of an extent. Raises ExtentError."""
    return polynomial(text).dim


def is_derived(dim: Dim) -> bool:
    """Whether an extent is arithmetic on dims, neither a number nor a dim."""
    return isinstance(dim, str) and not dim.isidentifier()


def names(dim: Dim) -> tuple[str, ...]:
    """Return the dims that an extent follows from, in sorted order."""
    return polynomial(dim).names


def names_of(dims: Iterable[Dim]) -> set[str]:
    """Return the dims that some extents follow from."""
    return {name for dim in dims for name in names(dim)}


def add(a: Dim, b: Dim) -> Dim:
    return (polynomial(a) + polynomial(b)).dim


def subtract(a: Dim, b: Dim) -> Dim:
    return (polynomial(a) - polynomial(b)).dim


def multiply(dims: Sequence[Dim]) -> Dim:
    """Return the product of extents; 1 for none."""
    result = Polynomial.number(1)
    for dim in dims:
        result = result * polynomial(dim)
    return result.dim


def divide(dim: Dim, divisor: int) -> Dim:
    """Divide an extent by a positive number, which it promises to be a multiple of."""
    return polynomial(dim).over(divisor).dim


def quotient(dim: Dim, part: Dim) -> int | None:
    """Return the number n with `dim == n * part`; None if there is none, or it is no number."""
    whole, divided = polynomial(dim), polynomial(part)
    if not divided.terms or [t for t, _ in whole.terms] != [t for t, _ in divided.terms]:
        return None
    number, over = whole.terms[0][1] * divided.divisor, divided.terms[0][1] * whole.divisor
    if number % over or (divided * Polynomial.number(number // over)) != whole:
        return None
    return number // over


def divisible(dim: Dim, divisor: int = 1) -> str | None:
    """Return the condition that an extent is a multiple of a number, such as `K % 128 == 0`.

    With 1 it is the condition under which the divisions in the extent are exact. None where it always holds.
    """
    form = polynomial(dim).over(divisor)
    if form.divisor == 1:
        return None
    rest = Polynomial.of({names: factor % form.divisor for names, factor in form.terms})
    text = rest.text(space=" ")
    return f"({text}) % {form.divisor} == 0" if len(rest.terms) > 1 else f"{text} % {form.divisor} == 0"


def at_least(dim: Dim, least: int) -> str | None:
    """Return the condition that an extent is no less than a number, such as `N >= 3`.

    Dims are at least 1. None where the condition always holds. Raises ExtentError where it never does.
    """
    form = polynomial(dim)
    rest = form.numerator - Polynomial.number(least * form.divisor)
    added = Polynomial.of({names: factor for names, factor in rest.terms if factor > 0})
    taken = Polynomial.of({names: -factor for names, factor in rest.terms if factor < 0})
    lowest = sum(factor for _, factor in added.terms)
    if not taken.terms or (taken.constant is not None and lowest >= taken.constant):
        return None
    highest = sum(factor for _, factor in taken.terms)
    if not added.terms or (added.constant is not None and highest > added.constant):
        raise ExtentError(f"{dim} is always less than {least}")
    return f"{added.text(space=' ')} >= {taken.text(space=' ')}"


VALUE = "$"
"""What stands for the extent of the array in `Source.form`, next to dims."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the value of a dim is read off: an axis of an array, and what converts its extent to the dim.

    The dim is `form`, in which `VALUE` stands for the extent, over `factor`, a polynomial in other dims.
    """

    array: int
    axis: int
    form: Polynomial = Polynomial(((("$",), 1),))
    factor: Polynomial = Polynomial((((), 1),))

    @property
    def is_plain(self) -> bool:
        """Whether the extent is the dim."""
        return self.form.names == (VALUE,) and self.form.divisor == 1 and self.factor.constant == 1

    def at(self, sizes: Mapping[str, Any], extent: Any) -> Any:
        """Return the value of the dim, rounded down, given the extent and the values of other dims."""
        return self.form.at({**sizes, VALUE: extent}) // self.factor.at(sizes)

    def text(self, names: Mapping[str, str], extent: str) -> str:
        """Print what computes the dim as arithmetic of C, with names for dims and for the extent."""
        form = self.form.text({**names, VALUE: extent}, " ")
        if self.factor.constant == 1:
            return form
        factor = self.factor.text(names, " ")
        quotient = f"({form}) / ({factor})"
        return quotient if len(self.factor.terms) == 1 else f"({factor}) ? {quotient} : 0"


def _solved(dim: Dim, name: str) -> tuple[Polynomial, Polynomial] | None:
    """Return `form` and `factor` of a `Source` for a dim in an extent, which is linear in it; else None."""
    extent = polynomial(dim)
    factors: dict[Monomial, int] = {}
    others: dict[Monomial, int] = {}
    for names, factor in extent.terms:
        if names.count(name) > 1:
            return None
        if name in names:
            rest = list(names)
            rest.remove(name)
            factors[tuple(rest)] = factor
        else:
            others[names] = factor
    form = Polynomial.of({(VALUE,): extent.divisor}) - Polynomial.of(others)
    factor = Polynomial.of(factors)
    if (number := factor.constant) is None:
        return form, factor
    return (form if number > 0 else -form).over(abs(number)), Polynomial.number(1)


def sources(shapes: Sequence[Sequence[Dim]], wanted: Iterable[str]) -> dict[str, Source]:
    """Return where each of the `wanted` dims is read off, in an order in which they can be computed.

    `shapes` are those of the arrays. A dim that is an extent is read off there; another one is solved for in
    an extent whose other dims are known. Dims that follow from no extent are left out.
    """
    missing = dict.fromkeys(wanted)
    found: dict[str, Source] = {}
    places = [(array, axis, dim) for array, dims in enumerate(shapes) for axis, dim in enumerate(dims)]
    for array, axis, dim in places:
        if isinstance(dim, str) and dim in missing:
            del missing[dim]
            found[dim] = Source(array, axis)
    while missing:
        before = len(found)
        for array, axis, dim in places:
            unknown = [name for name in names(dim) if name in missing]
            if len(unknown) == 1 and (solved := _solved(dim, unknown[0])) is not None:
                del missing[unknown[0]]
                found[unknown[0]] = Source(array, axis, *solved)
        if len(found) == before:
            break
    return found


def bind(shapes: Sequence[Sequence[Dim]], arrays: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the value of every dim, given the shapes of arrays. Raises ExtentError where they disagree."""
    sizes: dict[str, int] = {}
    for name, source in sources(shapes, sorted(names_of(dim for dims in shapes for dim in dims))).items():
        try:
            sizes[name] = source.at(sizes, arrays[source.array][source.axis])
        except ZeroDivisionError:
            sizes[name] = 0
        if sizes[name] < 1:
            extent = shapes[source.array][source.axis]
            raise ExtentError(f"{name} of {extent} would be {sizes[name]}, less than 1")
    for dims, extents in zip(shapes, arrays, strict=True):
        for dim, extent in zip(dims, extents, strict=True):
            if (wanted := value(dim, sizes)) != extent:
                what = f"an extent must be {dim}" if isinstance(dim, int) else f"dim {dim} is {wanted}"
                raise ExtentError(f"{what}, but an array has extent {extent}")
    return sizes


def value(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Return the value of an extent for given dims.

    Raises KeyError for a dim without a value, ExtentError where a division leaves a remainder.
    """
    if isinstance(dim, int):
        return dim
    if dim.isidentifier():
        return sizes[dim]
    form = polynomial(dim)
    total = form.numerator.at(sizes)
    if total % form.divisor:
        given = ", ".join(f"{name} = {sizes[name]}" for name in form.names)
        raise ExtentError(f"{dim} is no whole number for {given}")
    return total // form.divisor


def values(dims: Iterable[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the values of extents for given dims. Raises as `value` does."""
    return tuple(value(dim, sizes) for dim in dims)
