"""Functions of the language: their parameters, and how each builds its operations.

The file of an operation lists its functions in `FUNCTIONS`; the frontend collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import Dim, Dims

Option = float | str | Dims | None
"""The value of an option, an argument other than a tensor or scalar: number, word, axes, sizes or extents."""

VALUE, VALUES, NUMBER, WORD = "a value", "values", "a number", "a word"
AXES, EXTENT, BOUND, INTS, EXTENTS = "an axis", "an extent", "a bound", "integers", "extents"
"""The kinds of parameters; a parameter of kind VALUES takes any number of values."""

GIVEN = "given"
"""The option that lists the names of given values, for a function with optional values."""

SWITCH = ("off", "on")
"""The words of a parameter that is off or on."""


class Parameter(NamedTuple):
    """A parameter of a function. `default` is the text of its default; None for a required parameter."""

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
        """The text, without choices if there are many or the default is `auto`."""
        is_long = self.default == "auto" or len(self.choices) > 4
        return f"{self.name}={self.default}" if self.default and is_long else self.text


@dataclass(frozen=True)
class Function:
    """A function of the language, or one overload of it.

    `build` takes the values in order and the options by name, and returns the operation whose result is that
    of the function, or several operations of which the last one has the result. It may raise TypeRuleError.
    """

    name: str
    params: tuple[Parameter, ...]
    doc: str
    build: Callable[[Sequence[SSAValue], dict[str, Option]], Operation | Sequence[Operation]]

    @property
    def signature(self) -> str:
        """The signature with defaults or choices, such as `gelu(x, approximate=none|tanh)`."""
        return f"{self.name}({', '.join(p.text for p in self.params)})"

    def taking(self, positional: int) -> Function:
        """Replace a parameter of kind VALUES by `positional` parameters for one value each."""
        if self.params[0].kind is not VALUES:
            return self
        name = self.params[0].name
        values = [Parameter(f"{name}{i + 1}", VALUE) for i in range(max(positional, 1))]
        return replace(self, params=(*values, *self.params[1:]))


def first_line(operation: type[Operation]) -> str:
    """Return the first line of the docstring of an operation, which documents its function."""
    return (operation.__doc__ or "").strip().partition("\n")[0]  # empty with python -OO


X = Parameter("x", VALUE)
"""The value parameter `x`, the only one of most functions."""


def switch(name: str, default: str = "off") -> Parameter:
    """Build a parameter that is on or off."""
    return Parameter(name, WORD, default, SWITCH)


def is_on(options: Mapping[str, Option], name: str, default: str = "off") -> bool:
    """Read an option of kind WORD that is on or off."""
    return options.get(name, default) == "on"


def axes(options: Mapping[str, Option], name: str = "axis") -> tuple[int, ...] | None:
    """Read an option of axes or sizes; None if it was left out."""
    value = options.get(name)
    return tuple(int(v) for v in value) if isinstance(value, tuple) else None


def extents(options: Mapping[str, Option], name: str = "shape") -> tuple[Dim, ...]:
    """Read a required option of extents."""
    value = options[name]
    assert isinstance(value, tuple)
    return value


def bound(options: Mapping[str, Option], name: str) -> Dim:
    """Read a required option that is a bound of a slice."""
    value = options[name]
    assert isinstance(value, int | str)
    return value


def integer(options: Mapping[str, Option], name: str, default: int = 0) -> int:
    """Read an option of one axis or size, or return the default. Raises TypeRuleError MU1095 for several."""
    values = axes(options, name)
    if values is None:
        return default
    if len(values) != 1:
        raise TypeRuleError("MU1095", f"'{name}' is one integer, not {len(values)}")
    return values[0]


def number(options: Mapping[str, Option], name: str, default: float) -> float:
    """Read an option that is a number, or return the default."""
    value = options.get(name)
    return float(value) if isinstance(value, int | float) else default


def word(options: Mapping[str, Option], name: str, default: str) -> str:
    """Read an option that is a word, or return the default."""
    return str(options.get(name, default))
