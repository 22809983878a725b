"""How an operation is called in the language: what a function's parameters are and what builds the operation.

The file of an operation names its functions beside it (`FUNCTIONS`); the frontend collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import Dim, Dims

Option = float | str | Dims | None
"""What an argument that is no value may hold: a number, a word, axes or sizes, extents."""

VALUE, VALUES, NUMBER, WORD = "a value", "values", "a number", "a word"
AXES, EXTENT, INTS, EXTENTS = "an axis", "an extent", "integers", "extents"
"""The kinds of parameters; all values that are left over go to one of kind VALUES."""

GIVEN = "given"
"""The option of a function that may be called without some values: the names of those that it was given."""

SWITCH = ("off", "on")
"""The words of a parameter that switches something on."""


class Parameter(NamedTuple):
    """One parameter. `default` is the text of its default; None where an argument must be given."""

    name: str
    kind: str
    default: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if self.kind is VALUES:
            return f"{self.name}, ..."
        if self.default is None:
            return self.name
        if set(self.choices) == set(SWITCH):
            return f"{self.name}={self.default}"
        return f"{self.name}={'|'.join(self.choices) or self.default}"

    @property
    def brief(self) -> str:
        """The text, without choices where they are many or made by themselves."""
        is_long = self.default == "auto" or len(self.choices) > 4
        return f"{self.name}={self.default}" if self.default and is_long else self.text


@dataclass(frozen=True)
class Function:
    """One function (or one of two that share a name) and how its operations are built.

    `build` takes the values in order and the options by name, and gives the operation whose result is the
    function's, or several of which that is the last; it may raise TypeRuleError.
    """

    name: str
    params: tuple[Parameter, ...]
    doc: str
    build: Callable[[Sequence[SSAValue], dict[str, Option]], Operation | Sequence[Operation]]

    @property
    def signature(self) -> str:
        """`leaky_relu(x, slope=0.01)`, `gelu(x, approximate=none|tanh)`: defaults, or the choice."""
        return f"{self.name}({', '.join(p.text for p in self.params)})"

    def taking(self, positional: int) -> Function:
        """The function with a parameter for each of so many values, where it takes any number of them."""
        if self.params[0].kind is not VALUES:
            return self
        name = self.params[0].name
        values = [Parameter(f"{name}{i + 1}", VALUE) for i in range(max(positional, 1))]
        return replace(self, params=(*values, *self.params[1:]))


X = Parameter("x", VALUE)
"""The one value of most functions."""


def switch(name: str, default: str = "off") -> Parameter:
    """A parameter that is on or off."""
    return Parameter(name, WORD, default, SWITCH)


def is_on(options: Mapping[str, Option], name: str, default: str = "off") -> bool:
    """Whether a switch is on."""
    return options.get(name, default) == "on"


def axes(options: Mapping[str, Option], name: str = "axis") -> tuple[int, ...] | None:
    """Axes or sizes that were given, None where they were left out."""
    found = options.get(name)
    return tuple(int(v) for v in found) if isinstance(found, tuple) else None


def extents(options: Mapping[str, Option], name: str = "shape") -> tuple[Dim, ...]:
    """Extents that were given."""
    found = options[name]
    assert isinstance(found, tuple)
    return found


def integer(options: Mapping[str, Option], name: str, default: int = 0) -> int:
    """One axis or size that was given, else its default. Raises TypeRuleError MU1095 for several."""
    found = axes(options, name)
    if found is None:
        return default
    if len(found) != 1:
        raise TypeRuleError("MU1095", f"'{name}' is one integer, not {len(found)}")
    return found[0]


def number(options: Mapping[str, Option], name: str, default: float) -> float:
    """A number that was given, else its default."""
    found = options.get(name)
    return float(found) if isinstance(found, int | float) else default


def word(options: Mapping[str, Option], name: str, default: str) -> str:
    """A word that was given, else its default."""
    return str(options.get(name, default))
