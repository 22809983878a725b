"""Values and text of a random program of `bench.fuzz.chains` while it is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

from mucc.library.extents import polynomial, value

T = TypeVar("T")

Dim = int | str
Dims = tuple[Dim, ...]

EXTENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
LARGEST = 4096
"""The most elements of a value."""

NAMES = {"M": 3, "N": 5, "K": 4}
"""The dims that a program may leave open, with the sizes by which extents are kept small."""


def extent(dim: Dim) -> int:
    """Return an extent for the sizes of `NAMES`."""
    return value(dim, NAMES)


def times(*dims: Dim) -> Dim:
    """Return the product of extents."""
    found = polynomial(1)
    for dim in dims:
        found = found * polynomial(dim)
    return found.dim


def plus(*dims: Dim) -> Dim:
    """Return the sum of extents."""
    found = polynomial(0)
    for dim in dims:
        found = found + polynomial(dim)
    return found.dim


@dataclass(frozen=True)
class Value:
    """An expression of a program: text, extents, dtype.

    A `rough` value may be computed by several orders of the same sums, so that nothing may depend on whether
    two of its elements are equal.
    """

    text: str
    dims: Dims
    dtype: str = "f32"
    rough: bool = False

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(extent, self.dims))

    @property
    def count(self) -> int:
        return prod(self.sizes)


class Unfit(Exception):
    """Raised if an operation cannot be applied to the drawn value: another operation is drawn then."""


@dataclass
class Chain:
    """A random program under construction: its parameters, its lines, and the values that it has so far."""

    rng: random.Random
    rounds: bool = True
    """Whether operations round: casts, products, pinned stages, or lose the last digits."""
    params: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    values: list[Value] = field(default_factory=list[Value])
    names: int = 0

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of some options."""
        return self.rng.choice(options)

    def chance(self, share: float) -> bool:
        """Draw whether something happens that has this probability."""
        return self.rng.random() < share

    def name(self, stem: str) -> str:
        """Return a name that nothing has yet."""
        self.names += 1
        return f"{stem}{self.names}"

    def extent(self) -> Dim:
        """Draw an extent: mostly a number."""
        if self.chance(0.65):
            return self.pick(EXTENTS)
        return plus(self.pick(("M", "N", "K", "M", "N", "K", "2*M", "M+1", "K*N", "N+M")))

    def dims(self, rank: int) -> Dims:
        """Draw extents of a value of bounded size."""
        while True:
            found = tuple(self.extent() for _ in range(rank))
            if prod(map(extent, found)) <= LARGEST // 4:
                return found

    def param(self, dims: Dims, dtype: str = "f32", suffix: str = "", stem: str = "a") -> Value:
        """Add a parameter, which may lie in memory in any order."""
        name, declared, text = self.name(stem), list(dims), ""
        if not suffix and len(dims) >= 2 and dtype not in ("s4", "u4"):
            match self.pick(("row", "row", "turned", "columns", "pitch")):
                case "turned":
                    declared[-2:] = reversed(declared[-2:])
                    text = ".T"
                case "columns":
                    suffix = " col_major"
                case "pitch":
                    suffix = f" strides({', '.join(['_'] * (len(dims) - 1) + ['1'])})"
                case _:
                    pass
        self.params.append(f"{name}: {dtype}[{', '.join(map(str, declared))}]{suffix}")
        return Value(f"{name}{text}", dims, dtype)

    def named(self, v: Value, pinned: float = 0.06) -> Value:
        """Give a value a name, or pin it as a stage."""
        name = self.name("v")
        self.lines.append(f"{'stage ' if self.chance(pinned) and self.rounds else ''}{name} = {v.text}")
        return replace(v, text=name)

    def other(self, dims: Dims, dtype: str = "f32") -> Value:
        """Return a value of these extents: one that there is, or a parameter."""
        same = [v for v in self.values if v.dims == dims and v.dtype == dtype]
        if same and self.chance(0.6):
            return self.pick(same)
        if dtype == "bool":
            return Value(f"({self.param(dims).text} > {self.pick((0, -0.5))})", dims, "bool")
        return self.constant(dims, dtype) if self.chance(0.1) else self.param(dims, dtype)

    def constant(self, dims: Dims, dtype: str = "f32") -> Value:
        """Return a tensor that the program itself generates: one number, or numbers of elements."""
        if dims and self.chance(0.3):
            numbers = f"iota({tupled(dims)}, axis={self.rng.randrange(len(dims))})"
            return Value(numbers if dtype == "s32" else f"cast({numbers}, {dtype})", dims, dtype)
        if not dims:
            return self.param(dims, dtype)
        number = self.pick((0, 1, 2, -1) if dtype in ("s32", "s8", "u8") else (0, 1, 0.5, -2))
        return Value(
            f"full({tupled(dims)}, {max(number, 0) if dtype == 'u8' else number}, dtype={dtype})", dims, dtype
        )

    def axis(self, v: Value) -> int:
        """Draw an axis of a value. Raises Unfit for a number."""
        if not v.rank:
            raise Unfit
        return self.rng.randrange(v.rank)

    def spelled(self, v: Value, axis: int) -> int:
        """Return the number of an axis, counted from the front or from the end."""
        return axis if self.chance(0.5) else axis - v.rank


Operation = Callable[[Chain, Value], Value]
"""An operation applied to a value, which raises Unfit where it does not fit."""


def needs(condition: object) -> None:
    """Raise Unfit unless a condition holds."""
    if not condition:
        raise Unfit


def in_memory(v: Value) -> None:
    """Raise Unfit for bools, which no tensor in memory holds."""
    needs(v.dtype != "bool")


def floats(v: Value) -> None:
    """Raise Unfit for a value of integers."""
    needs(v.dtype in ("f32", "bf16", "f16"))


def number(dim: Dim) -> int:
    """Return an extent that is a number. Raises Unfit for others."""
    if not isinstance(dim, int):
        raise Unfit
    return dim


def tupled(items: Sequence[object]) -> str:
    """Return a tuple as text of the language."""
    return f"({', '.join(map(str, items))}{',' if len(items) == 1 else ''})"
