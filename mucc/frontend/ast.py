"""The abstract syntax tree (AST) that the parser builds, and formatter, dump and IR generation read.

Nodes are immutable and compare without spans, so that two texts that differ in layout only have equal trees.
This module is independent of types, shapes and IR.

`Node` gives its subclasses what `@dataclass(frozen=True)` would, without generating code for each class: this
module imports in one millisecond instead of twenty, which counts in every run of `mucc fmt`.
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
    """An immutable record with the fields that its class annotates; equality ignores spans."""

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
    """A syntactic element with the span of its source text."""

    span: Span

    def at(self, span: Span) -> Self:
        """Copy the node with another span."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, span=span)
        return copy


class Ident(Node):
    """A name at its declaration or use."""

    text: str


# Types


class IntLit(Node):
    """A non-negative integer."""

    value: int


class DimBinary(Node):
    """A binary operation on dims in a promise, an extent or an index.

    `op` is one of + - * / %, in extents not %.
    """

    op: str
    lhs: DimExpr
    rhs: DimExpr


class DimNegation(Node):
    """A negative number or dim in a promise or an index, `-K`."""

    operand: DimExpr


DimExpr: TypeAlias = Ident | IntLit | DimBinary | DimNegation


class Layout(Node):
    """A layout: `row_major`, `col_major`, `sparse`, or `strides(...)` with None for each `_` (any stride)."""

    kind: str
    strides: tuple[int | None, ...] = ()


class Type(Node):
    """A type such as `bf16[M, K] col_major`. `shape` is None for a scalar passed by value."""

    dtype: Ident
    shape: tuple[DimExpr, ...] | None
    layout: Layout | None = None


# Expressions


class Number(Node):
    """A numeric literal, without a sign."""

    text: str

    @property
    def is_int(self) -> bool:
        return self.text.isdigit()

    @property
    def value(self) -> float:
        return float(self.text)


class Name(Node):
    """A reference to a parameter or an earlier binding; as an argument also a word such as `bf16`."""

    text: str


class Unary(Node):
    """A unary operation, `-x` or `not x`."""

    op: str
    operand: Expr


class Binary(Node):
    """A binary operation `lhs op rhs`; `op_span` is the span of the operator."""

    op: str
    lhs: Expr
    rhs: Expr
    op_span: Span

    @property
    def spine(self) -> tuple[Expr, list[Binary]]:
        """The leftmost operand, and the operations on it from the inside out: `a`, [`a + b`, `a + b + c`].

        Tree walks iterate over it instead of recursing, because the number of terms in a sum is unbounded.
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
        (first, chain), (other_first, other_chain) = self.spine, other.spine
        terms, other_terms = ([(b.op, b.rhs) for b in c] for c in (chain, other_chain))
        return first == other_first and terms == other_terms

    def __hash__(self) -> int:
        first, chain = self.spine
        return hash((first, *((b.op, b.rhs) for b in chain)))


class Transpose(Node):
    """A transpose `x.T` of the last two axes."""

    operand: Expr


class NewAxis(Node):
    """The index `None`, which inserts an axis of extent 1."""


class Ellipsis(Node):
    """The index `...`, which stands for all axes that the other indices leave."""


class Slice(Node):
    """The index `start:stop:step`, with None for each that is left out."""

    start: DimExpr | None = None
    stop: DimExpr | None = None
    step: DimExpr | None = None


IndexItem: TypeAlias = NewAxis | Ellipsis | Slice | DimExpr


class Index(Node):
    """An index expression such as `x[:, 2:8, None]`; an item that is an integer drops its axis."""

    operand: Expr
    items: tuple[IndexItem, ...]


class List(Node):
    """A list argument such as `(0, -1)` or `(B, 4, 2*K)`: integers, dims, and arithmetic on dims."""

    values: tuple[int | Ident | DimBinary | DimNegation, ...]


class Argument(Node):
    """An argument of a call; `name` is its keyword, None for a positional argument."""

    name: Ident | None
    value: Expr | List


class Call(Node):
    """A call `function(args)`."""

    function: Ident
    args: tuple[Argument, ...]


Expr: TypeAlias = Number | Name | Unary | Binary | Transpose | Index | Call


# Kernels


class Dim(Node):
    """The declaration of a dim: `M`, or `K=4096` with a value."""

    name: Ident
    value: IntLit | None = None


class Param(Node):
    """A parameter or a named result, such as `x: bf16[M, K]`."""

    name: Ident
    type: Type


class Promise(Node):
    """A condition on dims such as `K % 8 == 0`, which the host entry checks at each call."""

    op: str
    lhs: DimExpr
    rhs: DimExpr


class Statement(Node):
    """A statement `[stage] name [: type] = value`."""

    name: Ident
    type: Type | None
    value: Expr
    is_stage: bool = False


class Kernel(Node):
    """A kernel. `results` is the type of a single unnamed result, or named results in order.

    Spans of lists include the brackets; `open` is the span of the brace that begins the body. With `each`, a
    call may run a list of problems.
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
        """The names of the results; an unnamed result is `out`, with underscores if a parameter is `out`."""
        if isinstance(self.results, tuple):
            return tuple(r.name.text for r in self.results)
        name = "out"
        while any(p.name.text == name for p in self.params):
            name += "_"
        return (name,)


class Function(Node):
    """A function `fn name(x, y) { ... }`, whose body takes the place of each call.

    `returns` has one value in a program that is right; spans are those of a kernel.
    """

    name: Ident
    params: tuple[Ident, ...]
    body: tuple[Statement, ...]
    returns: tuple[Expr, ...]
    params_span: Span
    open: Span
    return_span: Span


# Schedules


class Shape(Node):
    """A value of a setting that is a list of sizes, such as `128x256x64`."""

    values: tuple[int, ...]


class Word(Node):
    """A word with or without arguments, such as `cooperative` or `persistent(raster=along_n)`.

    `args` is None where the source has no brackets.
    """

    text: str
    args: tuple[ValueArg, ...] | None = None


class ValueArg(Node):
    """An argument of a word, such as `raster=along_n`, or a value without a name."""

    name: Ident | None
    value: Value


Value: TypeAlias = Shape | IntLit | Word


class Setting(Node):
    """A setting of a schedule, such as `tile = 128x256x64`."""

    name: Ident
    value: Value


class Schedule(Node):
    """A schedule `schedule kernel[.stage] for target { settings }`."""

    kernel: Ident
    stage: Ident | None
    target: Ident
    settings: tuple[Setting, ...]
    open: Span


class Program(Node):
    """The AST of a source file, its items in the order of the text."""

    items: tuple[Kernel | Function | Schedule, ...]

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(i for i in self.items if isinstance(i, Function))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(i for i in self.items if isinstance(i, Kernel))

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return tuple(i for i in self.items if isinstance(i, Schedule))
