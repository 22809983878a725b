"""Entries of a kernel: programs with schedules of their own, of which each call takes one by its dims.

The library chooses in C++ that `mucc.compiler.host` writes; `chosen` is the same choice in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mucc.library.dims import holds


class Range(NamedTuple):
    """The values of a dim from `lower` to `upper`, both included; None: without end."""

    dim: str
    lower: int
    upper: int | None

    @property
    def text(self) -> str:
        """The range as a condition, such as `M <= 32` and `33 <= M <= 512`."""
        if self.upper is None:
            return f"{self.dim} >= {self.lower}"
        if self.lower <= 1:
            return f"{self.dim} <= {self.upper}"
        return f"{self.lower} <= {self.dim} <= {self.upper}"

    def has(self, dims: Mapping[str, int]) -> bool:
        """Whether a call with these dims is in the range."""
        return self.lower <= dims[self.dim] and (self.upper is None or dims[self.dim] <= self.upper)


Guard = tuple[Range, ...]
"""A box of sizes: a call is in it if its dims are in all ranges."""


def guards_text(guards: Sequence[Guard]) -> str:
    """Return guards in a line: `M <= 32`, `M <= 32, N >= 64 or M >= 512`; `else` without guards."""
    return " or ".join(", ".join(r.text for r in guard) for guard in guards) or "else"


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One entry of a kernel. `sizes` are those for which its schedule was chosen.

    `promises` are the conditions, with their reasons, that this entry needs and not all entries need.
    """

    guards: tuple[Guard, ...]
    promises: tuple[tuple[str, str], ...]
    sizes: tuple[Mapping[str, int], ...]

    def takes(self, dims: Mapping[str, int]) -> bool:
        """Whether the guards and the entry's own promises hold."""
        return self.fits(dims) and any(all(r.has(dims) for r in guard) for guard in self.guards)

    def fits(self, dims: Mapping[str, int]) -> bool:
        """Whether dims meet the conditions of the entry's kernels, such as `K % 8 == 0`."""
        return all(holds(text, dims) for text, _ in self.promises)


def chosen(entries: Sequence[EntryInfo], dims: Mapping[str, int]) -> int:
    """Return the number of the entry that computes a call, with values of all dims.

    The first whose guards and promises hold; else the last, or the first that fits if the last does not.
    """
    last = len(entries) - 1
    if (found := next((i for i, e in enumerate(entries) if e.takes(dims)), None)) is not None:
        return found
    if entries[last].fits(dims):
        return last
    return next((i for i, e in enumerate(entries) if e.fits(dims)), last)
