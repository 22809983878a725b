"""Convert operations of `mu` to expressions of the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from mucc.diagnostics.core import Span
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops import shape as s
from mucc.dialects.mu.ops.attention import AttentionGradientOp, AttentionLogSumExpOp, AttentionOp
from mucc.dialects.mu.ops.contraction import ComputeAttr, GroupedMatmulOp, MatmulOp
from mucc.dialects.mu.ops.conv import ConvOp, ConvTransposeOp
from mucc.dialects.mu.ops.indexed import GatherOp, ScatterOp, TakeAlongOp
from mucc.dialects.mu.ops.normalisation import (
    AlongAxisOp,
    LogSoftmaxOp,
    LogSumExpOp,
    NormalizeOp,
    SoftmaxOp,
)
from mucc.dialects.mu.ops.pointwise import ElementwiseOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.random import RandomOp
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, VarianceOp
from mucc.dialects.mu.ops.scan import ScanOp
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Shaped, dtype_name
from mucc.frontend import ast
from mucc.frontend.exprgen import INFINITY
from mucc.frontend.extents import as_extent
from mucc.library.extents import polynomial

NOWHERE = Span(0, 0)

_WHOLE, _NEW = ast.Slice(NOWHERE), ast.NewAxis(NOWHERE)

Speller = Callable[[Any, Sequence[ast.Expr]], ast.Expr]

_BINARY: dict[type[Operation], str] = {
    e.AddOp: "+",
    e.SubOp: "-",
    e.MulOp: "*",
    e.DivOp: "/",
    e.RemainderOp: "%",
    e.AndOp: "and",
    e.OrOp: "or",
}
_RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class SourceError(Exception):
    """The language has no syntax for this IR."""


def spell(op: Operation, operands: Sequence[ast.Expr]) -> ast.Expr:
    """Convert an operation to an expression of its operands. Raises SourceError if the language has none."""
    if isinstance(op, ElementwiseOp):
        return _elementwise(op, operands)
    if (speller := SPELLERS.get(type(op))) is None:
        raise SourceError(f"{op.name} has no text")
    return speller(op, operands)


def _elementwise(op: ElementwiseOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    match op:
        case e.CmpOp():
            return _binary(_RELATIONS[op.relation.data.value], *operands)
        case e.NotOp():
            return ast.Unary(NOWHERE, "not", operands[0])
        case e.NegOp() if not isinstance(operands[0], ast.Number):
            return ast.Unary(NOWHERE, "-", operands[0])
        case e.CastOp():
            return call("cast", operands[0], word(dtype_name(op.element_type)))
        case e.SelectOp():
            return call("where", *operands)
        case e.GeluOp():
            return call("gelu", *operands, **({"approximate": word("tanh")} if op.uses_tanh else {}))
        case _ if (sign := _BINARY.get(type(op))) is not None:
            return _binary(sign, *operands)
        case _ if op.SURFACE is not None:
            given = {name: cast(FloatAttr, op.properties[name]).value.data for name in op.PARAMS}
            options = {n: number(v) for n, v in given.items() if v != op.PARAMS[n]}
            return call(op.SURFACE, *operands, **options)
        case _:
            raise SourceError(f"{op.name} has no text")


def _binary(sign: str, lhs: ast.Expr, rhs: ast.Expr) -> ast.Expr:
    return ast.Binary(NOWHERE, sign, lhs, rhs, NOWHERE)


# Parts of calls


def call(function: str, *operands: ast.Expr | ast.List, **options: ast.Expr | ast.List) -> ast.Expr:
    """Build a call `function(operands, name=option)`."""
    given = [ast.Argument(NOWHERE, None, o) for o in operands]
    named = [ast.Argument(NOWHERE, ast.Ident(NOWHERE, n), v) for n, v in options.items()]
    return ast.Call(NOWHERE, ast.Ident(NOWHERE, function), (*given, *named))


def number(value: float) -> ast.Expr:
    """Build a number literal. Raises SourceError for NaN."""
    if math.isnan(value):
        raise SourceError("NaN has no text")
    size = abs(value)
    if math.isinf(size):
        literal = word(INFINITY)
    else:
        is_short = size < 1e6 and size == int(size)
        literal = ast.Number(NOWHERE, str(int(size)) if is_short else repr(size))
    return ast.Unary(NOWHERE, "-", literal) if math.copysign(1, value) < 0 else literal


def word(text: str) -> ast.Expr:
    """Build a word, such as a dtype."""
    return ast.Name(NOWHERE, text)


def dim(extent: Dim) -> ast.Expr:
    """Build an extent: a number, a dim, or arithmetic on dims."""
    return number(extent) if isinstance(extent, int) else arithmetic(extent)


def ints(values: Sequence[int]) -> ast.Expr | ast.List:
    """Build an integer, or a list of several."""
    return number(values[0]) if len(values) == 1 else ast.List(NOWHERE, tuple(values))


def shape(dims: Sequence[Dim]) -> ast.List:
    """Build a list of extents."""
    return ast.List(NOWHERE, tuple(_item(d) for d in dims))


def _item(extent: Dim) -> int | ast.Ident | ast.DimBinary:
    if isinstance(extent, int):
        return extent
    item = as_extent(arithmetic(extent))
    assert isinstance(item, ast.Ident | ast.DimBinary)
    return item


def result_shape(op: Operation) -> ast.List:
    """Build the list of the extents of an operation's result."""
    return shape(Shaped.of(op.results[0].type).dims)


def _integer(value: int) -> ast.IntLit:
    return ast.IntLit(NOWHERE, value)


def given(values: dict[str, tuple[ast.Expr | ast.List, bool]]) -> dict[str, ast.Expr | ast.List]:
    """Drop options that have their default."""
    return {name: value for name, (value, is_default) in values.items() if not is_default}


# One function for each kind of operation that is not elementwise


def _constant(op: e.ConstantOp, _: Sequence[ast.Expr]) -> ast.Expr:
    return number(op.value.value.data)


def _extent(op: e.ExtentOp, _: Sequence[ast.Expr]) -> ast.Expr:
    return arithmetic(op.extent.data)


def arithmetic(extent: Dim) -> ast.Expr:
    """Build the expression of an extent's value: `K`, `2 * N - 1`."""
    form = polynomial(extent)
    terms = [(factor, _product(abs(factor), names)) for names, factor in form.terms]
    (first, total), *others = terms
    if first < 0:
        total = ast.Unary(NOWHERE, "-", total)
    for factor, term in others:
        total = _binary("-" if factor < 0 else "+", total, term)
    return total if form.divisor == 1 else _binary("/", total, number(form.divisor))


def _product(factor: int, names: Sequence[str]) -> ast.Expr:
    factors = [*([number(factor)] if factor != 1 or not names else []), *map(word, names)]
    result = factors[0]
    for other in factors[1:]:
        result = _binary("*", result, other)
    return result


def _matmul(op: MatmulOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    options: dict[str, ast.Expr] = {}
    if op.compute != ComputeAttr.default(op.lhs.type, op.rhs.type):
        options["compute"] = word(op.compute.data.value)
    if op.acc is not None:
        options["acc"] = word(op.acc.data.value)
    if op.scales:
        options |= {"scale_a": operands[2], "scale_b": operands[3]}
    return call("matmul", *operands[:2], **options) if options else _binary("@", *operands[:2])


def _transpose(op: TransposeOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return ast.Transpose(NOWHERE, operands[0])


def _expand(op: ExpandOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    axes = op.axes.get_values()
    rank = len(Shaped.of(op.result.type).dims)
    return ast.Index(NOWHERE, operands[0], tuple(_NEW if n in axes else _WHOLE for n in range(rank)))


def _squeeze(op: SqueezeOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    """Write `x[:, 0]`, and `x[:, i]` for a slice of one element."""
    value, items = _sliced(operands[0])
    axes = op.axes.get_values()
    items += [_WHOLE] * (axes[-1] + 1 - len(items))
    for axis in axes:
        item = items[axis]
        items[axis] = item.start if isinstance(item, ast.Slice) and item.start else _integer(0)
    return ast.Index(NOWHERE, value, tuple(items))


def _sliced(expr: ast.Expr) -> tuple[ast.Expr, list[ast.IndexItem]]:
    """Return what an expression takes slices of, and these; none for another expression."""
    if isinstance(expr, ast.Index) and all(isinstance(item, ast.Slice) for item in expr.items):
        return expr.operand, list(expr.items)
    return expr, []


def _reduce(op: ReduceOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    axes, rank = op.axes.get_values(), len(Shaped.of(op.operand.type).dims)
    return call(op.kind.data.value, *operands, **axis_option(axes, rank))


def axis_option(axes: Sequence[int], rank: int) -> dict[str, ast.Expr | ast.List]:
    """Build the option `axis=...`, empty for all axes."""
    return {} if len(axes) == rank else {"axis": ints(axes)}


def _dequantize(op: DequantizeOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("dequantize", *operands)


def _grouped(op: GroupedMatmulOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("grouped_matmul", *operands)


def _gather(op: GatherOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("gather", *operands)


def _scatter(op: ScatterOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("scatter", *operands, dim(op.extent.data))


def _reshape(op: s.ReshapeOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("reshape", *operands, result_shape(op))


def _broadcast(op: BroadcastOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    if not Shaped.of(op.result.type).dims:
        return operands[0]  # a scalar that is stored as a tensor
    return call("broadcast", *operands, result_shape(op))


def _permute(op: s.PermuteOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("permute", *operands, shape(op.order.get_values()))


def _slice(op: s.SliceOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    (start, stop, step), axis = op.range, op.axis.value.data
    value, items = _sliced(operands[0])
    if len(items) > axis:  # slices are taken from the first axis on
        value, items = operands[0], []
    part = ast.Slice(
        NOWHERE,
        as_extent(dim(start)) if start else None,
        as_extent(dim(stop)) if stop != Shaped.of(op.operand.type).dims[axis] else None,
        _integer(step) if step != 1 else None,
    )
    return ast.Index(NOWHERE, value, (*items, *[_WHOLE] * (axis - len(items)), part))


def _concat(op: s.ConcatOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("concat", *operands, axis=number(op.axis.value.data))


def _pad(op: s.PadOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    low, high = op.low.get_values(), op.high.get_values()
    first = next((n for n, sizes in enumerate(zip(low, high, strict=True)) if any(sizes)), len(low) - 1)
    mode, value = op.mode.data.value, op.value.value.data
    options = given({"mode": (word(mode), mode == "constant"), "value": (number(value), value == 0)})
    return call("pad", *operands, ints(low[first:]), ints(high[first:]), **options)


def _flip(op: s.FlipOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("flip", *operands, **axis_option(op.axes.get_values(), len(Shaped.of(op.operand.type).dims)))


def _roll(op: s.RollOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("roll", *operands, number(op.shift.value.data), axis=number(op.axis.value.data))


def _triangle(op: s.TriangleOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    diagonal = op.diagonal.value.data
    options = given({"diagonal": (number(diagonal), diagonal == 0)})
    return call("tril" if op.kind.data.value == "lower" else "triu", *operands, **options)


def _iota(op: s.IotaOp, _: Sequence[ast.Expr]) -> ast.Expr:
    return call("iota", result_shape(op), axis=number(op.axis.value.data))


def _full(op: s.FullOp, _: Sequence[ast.Expr]) -> ast.Expr:
    dtype = dtype_name(Shaped.of(op.result.type).element_type)
    return call(
        "full",
        result_shape(op),
        number(op.value.value.data),
        **given({"dtype": (word(dtype), dtype == "f32")}),
    )


def _variance(op: VarianceOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    correction = op.correction.value.data
    options = axis_option(op.axes.get_values(), len(Shaped.of(op.operand.type).dims))
    return call("var", *operands, **options, **given({"correction": (number(correction), correction == 1)}))


def _arg_reduce(op: ArgReduceOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call(op.kind.data.value, *operands, axis=number(op.axis.value.data))


def _geometry(numbers: dict[str, tuple[Sequence[int], int]]) -> dict[str, ast.Expr | ast.List]:
    """Build options from numbers for each spatial axis: one number if all are equal, none for the default."""
    options: dict[str, ast.Expr | ast.List] = {}
    for name, (values, default) in numbers.items():
        if len(set(values)) > 1:
            options[name] = ints(values)
        elif values[0] != default:
            options[name] = number(values[0])
    return options


def _convolution(op: ConvOp | ConvTransposeOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    numbers: dict[str, tuple[Sequence[int], int]] = {
        "stride": (op.stride.get_values(), 1),
        "pad": (op.pad.get_values(), 0),
        "dilation": (op.dilation.get_values(), 1),
        "groups": ([op.groups.value.data], 1),
    }
    if isinstance(op, ConvTransposeOp):
        numbers["output_pad"] = (op.output_pad.get_values(), 0)
    default = ComputeAttr.default(op.operand.type, op.weight.type)
    compute = given({"compute": (word(op.compute.data.value), op.compute == default)})
    return call(op.name.removeprefix("mu."), *operands, **_geometry(numbers), **compute)


def _pool(op: PoolOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    size, stride = op.size.get_values(), op.stride.get_values()
    numbers: dict[str, tuple[Sequence[int], int]] = {
        "size": (size, -1),
        "pad": (op.pad.get_values(), 0),
        "dilation": (op.dilation.get_values(), 1),
    }
    options = _geometry(numbers)
    if tuple(stride) != tuple(size):
        options["stride"] = number(stride[0]) if len(set(stride)) == 1 else ints(stride)
    average = op.kind.data.value == "avg"
    if op.ceil is not None:
        options["ceil"] = word("on")
    if op.divisor is not None:
        options["divisor"] = number(op.divisor.value.data)
    elif average and op.count_pad is None:
        options["count_pad"] = word("off")
    return call("avg_pool" if average else "max_pool", *operands, **options)


def _scan(op: ScanOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    switches = {"reverse": op.reverse, "exclusive": op.exclusive}
    options = {name: word("on") for name, value in switches.items() if value is not None}
    return call(f"cum{op.kind.data.value}", *operands, axis=number(op.axis.value.data), **options)


def _sort(op: SortOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    axis = op.axis.value.data
    options = given({"axis": (number(axis), axis == len(Shaped.of(op.operand.type).dims) - 1)})
    if op.taken is not None:
        if op.descending is None:
            raise SourceError("the smallest elements alone have no text")
        return call(op.function, *operands, number(op.taken), **options)
    order = given({"descending": (word("on"), op.descending is None)})
    return call(op.function, *operands, **options, **order)


def _random(op: RandomOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    stream = op.stream.value.data
    return call("random", result_shape(op), *operands, **given({"stream": (number(stream), stream == 0)}))


def _along_axis(op: AlongAxisOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    axis = op.axis.value.data
    last = axis == len(Shaped.of(op.operand.type).dims) - 1
    return call(op.name.removeprefix("mu."), *operands, **given({"axis": (number(axis), last)}))


def _log_sum(op: LogSumExpOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    rank = len(Shaped.of(op.operand.type).dims)
    return call("logsumexp", *operands, **axis_option(op.axes.get_values(), rank))


_EPS = 1e-5
"""The default epsilon of normalisations."""


def _normalize(op: NormalizeOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    axes, rank = list(op.axes.get_values()), len(Shaped.of(op.operand.type).dims)
    eps = op.eps.value.data
    options = given({"eps": (number(eps), eps == _EPS)})
    if op.kind.data.value == "standard" and rank > 1 and axes == [0, *range(2, rank)]:
        return call("batch_norm", *operands, **options)
    axis = given({"axis": (ints(axes), axes == [rank - 1])})
    return call("rms_norm" if op.kind.data.value == "rms" else "layer_norm", *operands, **axis, **options)


def _attention(
    op: AttentionOp | AttentionLogSumExpOp | AttentionGradientOp, operands: Sequence[ast.Expr]
) -> ast.Expr:
    options: dict[str, ast.Expr | ast.List] = {}
    operands = list(operands)
    if isinstance(op, AttentionOp) and op.sinks is not None:
        options["sinks"] = operands.pop()
    if op.mask is not None:
        options["mask"] = operands.pop()
    if op.causal is not None:
        options["causal"] = word("on")
    size = Shaped.of(op.query.type).dims[-1]
    if op.scale is not None and (not isinstance(size, int) or op.scale.value.data != 1 / math.sqrt(size)):
        options["scale"] = number(op.scale.value.data)
    if isinstance(op, AttentionGradientOp):
        gradient, query, key, value, sums, result = operands
        operands = [query, key, value, result, sums, gradient]
    return call(op.function, *operands, **options)


def _take_along(op: TakeAlongOp, operands: Sequence[ast.Expr]) -> ast.Expr:
    return call("take_along", *operands, axis=number(op.axis.value.data))


SPELLERS: dict[type[Operation], Speller] = {
    e.ConstantOp: _constant,
    e.ExtentOp: _extent,
    MatmulOp: _matmul,
    TransposeOp: _transpose,
    ExpandOp: _expand,
    SqueezeOp: _squeeze,
    ReduceOp: _reduce,
    DequantizeOp: _dequantize,
    GroupedMatmulOp: _grouped,
    GatherOp: _gather,
    ScatterOp: _scatter,
    BroadcastOp: _broadcast,
    ConvOp: _convolution,
    ConvTransposeOp: _convolution,
    PoolOp: _pool,
    ScanOp: _scan,
    SortOp: _sort,
    RandomOp: _random,
    SoftmaxOp: _along_axis,
    LogSoftmaxOp: _along_axis,
    LogSumExpOp: _log_sum,
    NormalizeOp: _normalize,
    AttentionOp: _attention,
    AttentionLogSumExpOp: _attention,
    AttentionGradientOp: _attention,
    TakeAlongOp: _take_along,
    VarianceOp: _variance,
    ArgReduceOp: _arg_reduce,
    s.ReshapeOp: _reshape,
    s.PermuteOp: _permute,
    s.SliceOp: _slice,
    s.ConcatOp: _concat,
    s.PadOp: _pad,
    s.FlipOp: _flip,
    s.RollOp: _roll,
    s.TriangleOp: _triangle,
    s.IotaOp: _iota,
    s.FullOp: _full,
}
"""The function that converts each operation other than elementwise ones."""
