"""The functions of the language, derived from the operations of the `mu` dialect.

An operation of elements declares the name of its function (`SURFACE`), its operands, and its numeric and
word parameters; only the spelling of operand names is decided here. Other operations list their functions in
`FUNCTIONS` of their file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar, cast

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu import ops
from mucc.dialects.mu.ops.elementwise import ELEMENTWISE, CastOp, ElementwiseOp, SelectOp
from mucc.dialects.mu.surface import AXES, NUMBER, VALUE, WORD, Function, Option, Parameter, X, first_line
from mucc.dialects.mu.types import DTYPES, PACKED, STORABLE

T = TypeVar("T")

_CASTABLE = tuple(d for d in STORABLE if d not in PACKED)
"""The dtypes that kernels can store."""

_OPERANDS = {"operand": "x", "lhs": "a", "rhs": "b", "condition": "c", "on_true": "a", "on_false": "b"}


def _words(cls: type[ElementwiseOp]) -> dict[str, tuple[str, ...]]:
    """Collect the properties of an operation that are words, with the choices; the first is the default."""
    choices: dict[str, tuple[str, ...]] = {}
    for name, prop in cls.get_irdl_definition().properties.items():
        for base in prop.constr.get_bases() or ():
            if words := vars(base).get("enum_type"):
                choices[name] = tuple(cast("type[StrEnum]", words))
    return choices


def _elementwise(name: str, cls: type[ElementwiseOp]) -> Function:
    operands = [_OPERANDS.get(n, n) for n, _ in cls.get_irdl_definition().operands]
    params = [
        *(Parameter(n, VALUE) for n in operands),
        *(Parameter(n, NUMBER, f"{default:g}") for n, default in cls.PARAMS.items()),
        *(Parameter(n, WORD, words[0], words) for n, words in _words(cls).items()),
    ]

    def build(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
        return cast(Callable[..., Operation], cls)(*values, **options)

    return Function(name, tuple(params), first_line(cls), build)


def _cast(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    return CastOp(values[0], DTYPES[str(options["dtype"])])


def _of_elements() -> tuple[Function, ...]:
    """Build the functions of elements, which follow from the classes of their operations."""
    return (
        *(_elementwise(cls.SURFACE, cls) for cls in ELEMENTWISE if cls.SURFACE),
        _elementwise("where", SelectOp),
        Function(
            "cast",
            (X, Parameter("dtype", WORD, None, _CASTABLE)),
            first_line(CastOp),
            _cast,
        ),
    )


def _by_name(pairs: Iterable[tuple[str, T]]) -> dict[str, tuple[T, ...]]:
    """Group values by name."""
    table: dict[str, tuple[T, ...]] = {}
    for name, value in pairs:
        table[name] = (*table.get(name, ()), value)
    return table


class _Functions(Mapping[str, tuple[Function, ...]]):
    """All functions by name, loaded lazily: a lookup loads the file of operations that has the function."""

    def __init__(self) -> None:
        self._elements = _by_name((f.name, f) for f in _of_elements())
        self._files = _by_name((name, file) for file, names in ops.FILES.items() for name in names)
        self._names = dict.fromkeys((*self._elements, *self._files))
        self._cached: dict[str, tuple[Function, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Function, ...]:
        if (overloads := self._cached.get(name)) is None:
            if name not in self._names:
                raise KeyError(name)
            loaded = (f for file in self._files.get(name, ()) for f in ops.functions(file) if f.name == name)
            overloads = self._cached[name] = (*self._elements.get(name, ()), *loaded)
        return overloads

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FUNCTIONS: Mapping[str, tuple[Function, ...]] = _Functions()
"""All functions by name; `min` and `max` have two overloads: elementwise, and over axes."""


def choose(overloads: tuple[Function, ...], positional: int, keywords: Sequence[str]) -> Function:
    """Resolve an overload: the reduction for one value or an `axis`, otherwise the first."""
    if positional < 2 or "axis" in keywords:
        return next((f for f in overloads if any(p.kind is AXES for p in f.params)), overloads[0])
    return overloads[0]
