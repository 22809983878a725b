"""The syntax tree: what the parser makes and the formatter, the dump and IR generation read.

Nodes are frozen and compare without their spans, so that two texts that say the same have equal
trees. Nothing here knows about types, shapes or IR.

`Node` does for its subclasses what `@dataclass(frozen=True)` would, without generating code for each:
importing this file takes a millisecond instead of twenty, and `mucc fmt` pays for it on every run.
"""

from __future__ import annotations

from mucc.diagnostics.core import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, Self, TypeAlias, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Record:
    """A frozen record whose fields are its class's annotations; fields of type `Span` do not compare."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _compared: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 (inspect is slow to import)
        cls._fields = (*cls._fields, *own)
        cls._compared = (*cls._compared, *(name for name, type_ in own.items() if type_ != "Span"))

    if not TYPE_CHECKING:

        def __init__(self, *args, **kwargs):
            values = dict(zip(self._fields, args, strict=False), **kwargs)
            for name in self._fields:
                if name not in values and not hasattr(type(self), name):
                    raise TypeError(f"{type(self).__name__} needs {name}")
            self.__dict__.update(values)

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__} is frozen")

    def _key(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._compared)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._compared)
        return f"{type(self).__name__}({inner})"


class Node(Record):
    """A piece of source text, and the span that covers it."""

    span: Span

    def at(self, span: Span) -> Self:
        """The same node with another span."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, span=span)
        return copy


class Ident(Node):
    """A name where it is declared or referred to."""

    text: str


# Types


class IntLit(Node):
    """A non-negative integer."""

    value: int


class Quotient(Node):
    """`K/128`: an extent that is a whole part of a dim."""

    dim: Ident
    divisor: IntLit


Extent: TypeAlias = Ident | IntLit | Quotient


class Layout(Node):
    """`row_major`, `col_major`, `sparse`, or `strides(...)` with None for each `_` (any stride)."""

    kind: str
    strides: tuple[int | None, ...] = ()


class Type(Node):
    """`bf16[M, K] col_major`. `shape` is None for a scalar that is passed by value."""

    dtype: Ident
    shape: tuple[Extent, ...] | None
    layout: Layout | None = None


# Expressions


class Number(Node):
    """A numeric literal as written; `text` has no sign."""

    text: str

    @property
    def is_int(self) -> bool:
        return self.text.isdigit()

    @property
    def value(self) -> float:
        return float(self.text)


class Name(Node):
    """A reference to a parameter or an earlier binding; as an argument perhaps a word such as `bf16`."""

    text: str


class Unary(Node):
    """`-x` or `not x`."""

    op: str
    operand: Expr


class Binary(Node):
    """`lhs op rhs`; `op` is the token, `op_span` its place."""

    op: str
    lhs: Expr
    rhs: Expr
    op_span: Span

    @property
    def spine(self) -> tuple[Expr, list[Binary]]:
        """The leftmost operand, and the operators above it from the inside out: `a`, [`a + b`, `a + b + c`].

        Walks over trees follow it in a loop, since nothing bounds how many terms a sum has.
        """
        chain: list[Binary] = []
        first: Expr = self
        while isinstance(first, Binary):
            chain.append(first)
            first = first.lhs
        chain.reverse()
        return first, chain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Binary):
            return False
        (first, chain), (its_first, its_chain) = self.spine, other.spine
        own, its = ([(b.op, b.rhs) for b in c] for c in (chain, its_chain))
        return first == its_first and own == its

    def __hash__(self) -> int:
        first, chain = self.spine
        return hash((first, *((b.op, b.rhs) for b in chain)))


class Transpose(Node):
    """`x.T`: the last two axes swapped."""

    operand: Expr


class Index(Node):
    """`x[:, None]`: True in `new_axes` for each `None`, False for each `:`."""

    operand: Expr
    new_axes: tuple[bool, ...]


class List(Node):
    """`(0, -1)` or `(B, 4, K)`: integers and names of dims, only as an argument."""

    values: tuple[int | Ident, ...]


class Argument(Node):
    """One argument of a call, with its keyword if it has one."""

    name: Ident | None
    value: Expr | List


class Call(Node):
    """`function(args)`."""

    function: Ident
    args: tuple[Argument, ...]


Expr: TypeAlias = Number | Name | Unary | Binary | Transpose | Index | Call


# Kernels


class Dim(Node):
    """`M`, or `K=4096` with its value."""

    name: Ident
    value: IntLit | None = None


class Param(Node):
    """`x: bf16[M, K]`, a parameter or a named result."""

    name: Ident
    type: Type


class DimBinary(Node):
    """Arithmetic on dims in a promise; `op` is one of + - * / %."""

    op: str
    lhs: DimExpr
    rhs: DimExpr


DimExpr: TypeAlias = Ident | IntLit | DimBinary


class Promise(Node):
    """`K % 8 == 0`: what a caller must keep to; the host entry checks it."""

    op: str
    lhs: DimExpr
    rhs: DimExpr


class Statement(Node):
    """`[stage] name [: type] = value`."""

    name: Ident
    type: Type | None
    value: Expr
    is_stage: bool = False


class Kernel(Node):
    """One kernel. `results` is a bare type, or named results in order.

    The spans of its lists include their brackets; `open` is the brace that begins the body. `each` says that
    calls may give lists of problems.
    """

    name: Ident
    dims: tuple[Dim, ...]
    params: tuple[Param, ...]
    results: Type | tuple[Param, ...]
    promises: tuple[Promise, ...]
    body: tuple[Statement, ...]
    returns: tuple[Expr, ...]
    params_span: Span
    results_span: Span
    open: Span
    return_span: Span
    each: bool = False

    @property
    def result_names(self) -> tuple[str, ...]:
        """What the results are called; an unnamed one is `out`, unless a parameter is."""
        if isinstance(self.results, tuple):
            return tuple(r.name.text for r in self.results)
        name = "out"
        while any(p.name.text == name for p in self.params):
            name += "_"
        return (name,)


# Schedules


class Shape(Node):
    """`128x256x64`."""

    values: tuple[int, ...]


class Word(Node):
    """`cooperative`, or `persistent(raster=along_n)`; `args` is None without brackets."""

    text: str
    args: tuple[ValueArg, ...] | None = None


class ValueArg(Node):
    """`raster=along_n` or a bare value within a word's brackets."""

    name: Ident | None
    value: Value


Value: TypeAlias = Shape | IntLit | Word


class Setting(Node):
    """`tile = 128x256x64`."""

    name: Ident
    value: Value


class Schedule(Node):
    """`schedule kernel[.stage] for target { settings }`."""

    kernel: Ident
    stage: Ident | None
    target: Ident
    settings: tuple[Setting, ...]
    open: Span


class Program(Node):
    """A whole file, its items in the order of the text."""

    items: tuple[Kernel | Schedule, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(i for i in self.items if isinstance(i, Kernel))

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return tuple(i for i in self.items if isinstance(i, Schedule))
