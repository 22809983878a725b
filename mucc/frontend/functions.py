"""The functions of the language, derived from the operations of the `mu` dialect.

An operation class declares the name of its function (`SURFACE`), its operands, and its numeric and word
parameters; only the spelling of operand names is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar, cast

from xdsl.ir import Attribute, Operation, SSAValue

from mucc.dialects.mu import ops, rules
from mucc.dialects.mu.ops.contraction import (
    Accumulation,
    AccumulationAttr,
    Compute,
    ComputeAttr,
    GroupedMatmulOp,
    MatmulOp,
)
from mucc.dialects.mu.ops.elementwise import ELEMENTWISE, CastOp, ElementwiseOp, SelectOp
from mucc.dialects.mu.ops.indexed import GatherOp, ScatterOp
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.surface import (
    AXES,
    EXTENT,
    GIVEN,
    NUMBER,
    VALUE,
    WORD,
    Function,
    Option,
    Parameter,
)
from mucc.dialects.mu.types import DTYPES, PACKED, STORABLE, Shaped, dtype_name

T = TypeVar("T")

_CASTABLE = tuple(d for d in STORABLE if d not in PACKED)
"""The dtypes that kernels can store."""

_OPERANDS = {"operand": "x", "lhs": "a", "rhs": "b", "condition": "c", "on_true": "a", "on_false": "b"}


def _first_line(cls: type[Operation]) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


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

    return Function(name, tuple(params), _first_line(cls), build)


def _matmul(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    lhs, rhs = values[0].type, values[1].type
    rules.matmul(lhs, rhs)
    choices = ComputeAttr.choices(lhs, rhs)
    compute = options.get("compute") or choices[0]
    if compute in choices:
        op = MatmulOp(values[0], values[1], ComputeAttr(Compute(compute)), scales=values[2:])
        return _accumulated(op, options.get("acc"))
    sparse = "sparse " if rules.is_sparse(lhs) or rules.is_sparse(rhs) else ""
    operands = f"{sparse}{dtype_name(Shaped.of(lhs).element_type)} operands"
    raise TypeRuleError(
        "MU1010",
        f"{operands} cannot compute in {compute}",
        notes=(f"{operands} of a contraction compute in {_any_of(choices)}",),
        helps=(f"leave `compute` out{_otherwise(compute, lhs, rhs, bool(sparse))}",),
    )


def _otherwise(compute: Option, lhs: Attribute, rhs: Attribute, is_sparse: bool) -> str:
    """Return further advice on how operands can compute in a format."""
    dense = ComputeAttr.choices(Shaped.of(lhs).element_type, Shaped.of(rhs).element_type)
    if is_sparse:
        return ", or `sparse` out of the type of the matrix" if compute in dense else ""
    dtype = next(d for d in STORABLE if compute in ComputeAttr.choices(DTYPES[d], DTYPES[d]))
    return f", or cast both operands to {dtype}"


def _any_of(words: Sequence[str]) -> str:
    """Join words to a text such as `tf32, tf32x3 or f32`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _accumulated(op: MatmulOp, acc: Option) -> MatmulOp:
    """Set the accumulation of a product. Raises TypeRuleError MU1061 where the format does not allow it."""
    compute, reason = op.compute.data, ""
    if acc == Accumulation.FAST and op.scales:
        reason = "parts of the sum are scaled, and added up in f32"
    if acc == Accumulation.FAST and compute not in (Compute.E4M3, Compute.E5M2):
        reason = "tensor cores add up products of e4m3 and e5m2 with fewer bits than f32 has; no others"
    if acc == Accumulation.F32 and compute in (Compute.S8, Compute.U8):
        reason = "sums of integers are exact, in s32"
    if reason:
        raise TypeRuleError(
            "MU1061", f"products in {compute} are not summed in {acc}", (reason,), ("leave `acc` out",)
        )
    if acc == Accumulation.FAST:
        op.acc = AccumulationAttr(Accumulation.FAST)
    return op


def _dequantize(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    return DequantizeOp(*values)


def _cast(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    return CastOp(values[0], DTYPES[str(options["dtype"])])


def _grouped_matmul(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    by_group = dict(zip(str(options[GIVEN]).split()[3:], values[3:], strict=True))
    return GroupedMatmulOp(
        values[0], values[1], values[2], scale=by_group.get("scale"), bias=by_group.get("bias")
    )


def _gather(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    return GatherOp(values[0], values[1])


def _scatter(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    extent = options["extent"]
    assert isinstance(extent, int | str)
    return ScatterOp(values[0], values[1], extent)


def _core_functions() -> tuple[Function, ...]:
    """Build the functions that are not in `FUNCTIONS` of a file of operations."""
    formats = tuple(Compute)
    return (
        Function(
            "matmul",
            (
                Parameter("a", VALUE),
                Parameter("b", VALUE),
                Parameter("compute", WORD, "auto", formats),
                Parameter("acc", WORD, "f32", tuple(Accumulation)),
                Parameter("scale_a", VALUE, "none"),
                Parameter("scale_b", VALUE, "none"),
            ),
            "The product `a @ b`, with its number format",
            _matmul,
        ),
        Function(
            "dequantize",
            (Parameter("w", VALUE), Parameter("scales", VALUE), Parameter("zeros", VALUE, "none")),
            _first_line(DequantizeOp),
            _dequantize,
        ),
        *(_elementwise(cls.SURFACE, cls) for cls in ELEMENTWISE if cls.SURFACE),
        _elementwise("where", SelectOp),
        Function(
            "grouped_matmul",
            (
                Parameter("a", VALUE),
                Parameter("b", VALUE),
                Parameter("offsets", VALUE),
                Parameter("scale", VALUE, "none"),
                Parameter("bias", VALUE, "none"),
            ),
            "Rows `offsets[g-1]` to `offsets[g]` of `a` times `b[g]` and `scale[g]`, plus `bias[g]`",
            _grouped_matmul,
        ),
        Function(
            "gather",
            (Parameter("x", VALUE), Parameter("rows", VALUE)),
            "The rows of x that `rows` names, `x[rows]`",
            _gather,
        ),
        Function(
            "scatter",
            (Parameter("x", VALUE), Parameter("rows", VALUE), Parameter("extent", EXTENT)),
            "`extent` rows: row i of x becomes row `rows[i]`, all others are zero",
            _scatter,
        ),
        Function(
            "cast",
            (Parameter("x", VALUE), Parameter("dtype", WORD, None, _CASTABLE)),
            _first_line(CastOp),
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
        self._core = _by_name((f.name, f) for f in _core_functions())
        self._files = _by_name((name, file) for file, names in ops.FILES.items() for name in names)
        self._names = dict.fromkeys((*self._core, *self._files))
        self._cached: dict[str, tuple[Function, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Function, ...]:
        if (overloads := self._cached.get(name)) is None:
            if name not in self._names:
                raise KeyError(name)
            loaded = (f for file in self._files.get(name, ()) for f in ops.functions(file) if f.name == name)
            overloads = self._cached[name] = (*self._core.get(name, ()), *loaded)
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
