"""Type rules of scans, sorting, random numbers, softmax, normalisation and attention.

As in `rules`, each function infers a result type, and raises TypeRuleError with the code of the broken rule.
Results have the dtype of their operand, as in torch, and f32 for 8-bit floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, f32, i1
from xdsl.ir import Attribute

from mucc.dialects.mu import rules
from mucc.dialects.mu.arrays import INTEGERS
from mucc.dialects.mu.index_rules import index_tensor
from mucc.dialects.mu.rules import TypeRuleError, normalise_axes, promote, shape_text
from mucc.dialects.mu.shape_rules import one_axis, tensor
from mucc.dialects.mu.types import DTYPES, WIDE, Dims, Shaped, TensorType, dtype_name
from mucc.library.extents import multiply


def scan(operand: Attribute, axis: int) -> TensorType:
    """Keep the shape; scans of integers are s32. Raises TypeRuleError MU1021, MU1028."""
    value = tensor("a scan", operand)
    one_axis(axis, len(value.dims))
    is_integer = value.element_type != i1 and isinstance(value.element_type, IntegerType)
    return TensorType.of(value.dims, DTYPES["s32"] if is_integer else promote([operand]))


def sort(operand: Attribute, axis: int, count: int | None = None, *, positions: bool = False) -> TensorType:
    """Keep shape and dtype, or s32 for positions; with `count` so many elements are left along the axis.

    Raises TypeRuleError MU1021 for bools, MU1028, MU1105 for a count that there is not.
    """
    value = tensor("sort", operand)
    axis = one_axis(axis, len(value.dims))
    dims, element = list(value.dims), promote([operand])
    if isinstance(value.element_type, IntegerType):
        element = DTYPES["s32"]
    if count is not None:
        extent = dims[axis]
        if count < 1 or (isinstance(extent, int) and count > extent):
            raise TypeRuleError(
                "MU1105",
                f"topk cannot take {count} of {extent} elements",
                notes=(f"axis {axis} of {value} has extent {extent}",),
            )
        dims[axis] = count
    return TensorType.of(dims, DTYPES["s32"] if positions else element)


def along(what: str, operand: Attribute, axes: Sequence[int]) -> TensorType:
    """Keep shape and dtype. Raises TypeRuleError MU1021 for bools, MU1028 for axes."""
    value = tensor(what, operand)
    normalise_axes(axes, len(value.dims))
    return TensorType.of(value.dims, promote([operand]))


def scores(query: Attribute, key: Attribute) -> TensorType:
    """Infer the products of queries `[.., M, D]` and keys `[.., N, D]`: `[.., M, N]`.

    Raises TypeRuleError where shapes or dtypes do not fit.
    """
    return rules.matmul(query, rules.transpose(key))


def in_pages(rows: Attribute, pages: Attribute) -> TensorType:
    """Infer the rows `[B, .., N * R, D]` of sequences, whose pages tables `[B, 1, .., N]` of s32 name.

    `rows` `[.., P, R, D]` are those of all pages. Raises TypeRuleError MU1103 where shapes do not fit.
    """
    all_rows, table = tensor("attention", rows, 3), tensor("attention", pages, 2)
    *lead, _, page, width = all_rows.dims
    batch, *between, count = table.dims
    fits = table.element_type == DTYPES["s32"] and len(table.dims) == len(lead) + 2
    if not fits or any(extent != 1 for extent in between):
        raise TypeRuleError(
            "MU1103",
            f"table {table} does not say which pages of {all_rows} each sequence has",
            notes=("the rows of all pages are [.., pages, rows, D], tables s32[B, 1, .., N]",),
        )
    return TensorType.of((batch, *lead, multiply([count, page]), width), all_rows.element_type)


def attention(
    query: Attribute,
    key: Attribute,
    value: Attribute,
    mask: Attribute | None = None,
    sinks: Attribute | None = None,
) -> TensorType:
    """Infer attention of `[.., M, D]`, `[.., N, D]` and `[.., N, E]`: `[.., M, E]`; leading axes broadcast.

    The dtype is that of the operands, or f32 where they are e4m3, as that of products is.
    Sinks `[.., 1, 1]` broadcast to leading axes. Raises TypeRuleError MU1103 where shapes or dtypes do not
    fit.
    """
    q, k, v = (tensor("attention", type, 2) for type in (query, key, value))
    alike = q.element_type == k.element_type == v.element_type
    if not alike or q.element_type not in (*WIDE, DTYPES["e4m3"]):
        names = ", ".join(dtype_name(t.element_type) for t in (q, k, v))
        raise TypeRuleError("MU1103", f"attention needs three tensors of bf16, f16, f32 or e4m3, got {names}")
    try:
        products = scores(query, key)
        # Weights are rounded to the dtype of the values.
        result = rules.matmul(TensorType.of(products.dims, v.element_type), value)
    except TypeRuleError as e:
        raise TypeRuleError(
            "MU1103",
            f"queries {q}, keys {k} and values {v} do not fit",
            notes=(
                "attention takes queries [.., M, D], keys [.., N, D] and values [.., N, E]; leading axes are "
                "equal, or 1",
            ),
            helps=_shared_heads(q, k),
        ) from e
    if mask is not None:
        _mask(mask, products)
    if sinks is not None:
        _sinks(sinks, products)
    return result


def _shared_heads(query: Shaped, key: Shaped) -> tuple[str, ...]:
    """Return advice where there are several times as many heads of queries as of keys."""
    heads, fewer = (t.dims[-3] if len(t.dims) > 2 else 0 for t in (query, key))
    if not isinstance(heads, int) or not isinstance(fewer, int) or not fewer or heads in (fewer, 0):
        return ()
    if heads % fewer:
        return ()
    wide = shape_text((*query.dims[:-3], fewer, heads // fewer, *query.dims[-2:]))
    at = ":, " * (len(key.dims) - 2)
    return (f"heads share keys along an axis of extent 1: give queries {wide}, and `k[{at}None]`",)


def attention_sums(query: Attribute, key: Attribute, mask: Attribute | None = None) -> TensorType:
    """Infer the log-sum-exp of attention's scores, of `[.., M, D]` and `[.., N, D]`: `[.., M]`, f32.

    Raises TypeRuleError MU1103 where shapes or dtypes do not fit.
    """
    return TensorType.of(attention(query, key, key, mask).dims[:-1], f32)


def attention_gradient(of: str, operands: Sequence[Attribute], mask: Attribute | None = None) -> TensorType:
    """Infer a gradient of attention: the extents and dtype of the operand that it is `of`.

    Operands are the gradient of the result, queries, keys, values, log-sum-exp, and the result, or a sum for
    each of its rows. Raises TypeRuleError MU1103 where shapes or dtypes do not fit.
    """
    gradient, query, key, value, sums, rows = operands
    result = attention(query, key, value, mask)
    expected = (result, TensorType.of(result.dims[:-1], f32))
    given = [Shaped.of(t) for t in (gradient, rows, sums)]
    fits = given[0] == Shaped.of(result) and given[2] == Shaped.of(expected[1])
    if not fits or given[1] not in map(Shaped.of, expected):
        raise TypeRuleError(
            "MU1103",
            f"gradient {given[0]}, result {given[1]} and log-sum-exp {given[2]} are not those of attention",
            notes=(f"its result is {Shaped.of(result)}, and its log-sum-exp {Shaped.of(expected[1])}",),
        )
    if mask is None and of == "mask":
        raise TypeRuleError("MU1103", "the gradient of a mask is that of `mask=`, which is not given")
    operand = tensor("attention", {"query": query, "key": key, "value": value}.get(of, mask or query), 2)
    if operand.element_type not in WIDE:
        name = dtype_name(operand.element_type)
        raise TypeRuleError(
            "MU1103", f"there is a gradient of numbers that are added to scores, not of {name}"
        )
    return TensorType.of(operand.dims, operand.element_type)


def _mask(mask: Attribute, scores: TensorType) -> None:
    given = Shaped.of(mask)
    if not isinstance(mask, TensorType):
        raise TypeRuleError(
            "MU1103",
            f"a mask is a tensor, not {given}",
            notes=("the same number for all scores of a row changes nothing",),
        )
    if given.element_type not in (*WIDE, i1):  # bools of other frameworks are bytes, or integers
        raise TypeRuleError(
            "MU1103",
            f"mask {given} would be added to the scores",
            notes=("a mask of bools says which scores stay, one of numbers is added to them",),
            helps=("compare it: `mask=m != 0`; to add it, write `cast(m, f32)`",),
        )
    try:
        fits = rules.broadcast([given.dims, scores.dims]) == scores.dims
    except TypeRuleError:
        fits = False
    if not fits:
        raise TypeRuleError(
            "MU1103",
            f"mask {given} does not broadcast to the scores {shape_text(scores.dims)}",
            notes=("a mask of bools says which scores stay, one of numbers is added to them",),
        )


def _sinks(sinks: Attribute, scores: TensorType) -> None:
    given, lead = Shaped.of(sinks), scores.dims[:-2]
    note = "sinks are a number of bf16, f16 or f32 for each head: those of [B, H, M, D] are [H]"
    if given.element_type not in WIDE:
        raise TypeRuleError("MU1103", f"sinks cannot be {dtype_name(given.element_type)}", notes=(note,))
    try:
        fits = rules.broadcast([given.dims[:-2], lead]) == lead and given.dims[-2:] == (1, 1)
    except TypeRuleError:
        fits = False
    if not fits:
        dims = list(given.dims[:-2])
        while len(dims) > 1 and dims[0] == 1:
            dims.pop(0)
        name = f"{dtype_name(given.element_type)}{shape_text(tuple(dims))}"
        raise TypeRuleError(
            "MU1103",
            f"sinks {name} do not broadcast to the leading axes {shape_text(lead)}",
            notes=(note,),
        )


def take_along(operand: Attribute, index: Attribute, axis: int) -> TensorType:
    """Return the index's shape with the operand's dtype.

    Raises TypeRuleError MU1028, MU1072, MU1073 for bools, MU1104.
    """
    value, numbers = tensor("take_along", operand), Shaped.of(index)
    if value.element_type == i1:
        raise TypeRuleError(
            "MU1073", f"take_along needs a tensor of numbers, got {value}", helps=("compare what it takes",)
        )
    axis = one_axis(axis, len(value.dims))
    index_tensor("the index", index)
    others = (*value.dims[:axis], *value.dims[axis + 1 :])
    if len(numbers.dims) != len(value.dims) or (*numbers.dims[:axis], *numbers.dims[axis + 1 :]) != others:
        raise TypeRuleError(
            "MU1104",
            f"index {numbers} does not lie along axis {axis} of {value}",
            notes=("all extents but that of the axis are the same",),
        )
    return TensorType.of(numbers.dims, value.element_type)


def random(dims: Dims, seed: Attribute, literal: float | None, stream: int) -> TensorType:
    """Return f32 of these extents. Raises TypeRuleError MU1107 for another seed than an `s32[]` or integer.

    `literal` is the value of a seed that is a literal.
    """
    least, most = INTEGERS["s32"]
    given = Shaped.of(seed)
    is_tensor = isinstance(seed, TensorType) and given.element_type == DTYPES["s32"] and not given.dims
    is_literal = literal is not None and literal.is_integer() and least <= literal <= most
    if not is_tensor and not is_literal:
        raise TypeRuleError(
            "MU1107",
            f"a seed cannot be {given}" if literal is None else f"a seed cannot be {literal:g}",
            notes=("it is a tensor `s32[]`, or an integer of 32 bits in the text",),
        )
    if not least <= stream <= most:
        raise TypeRuleError("MU1107", f"a stream cannot be {stream}", notes=("it has 32 bits",))
    return TensorType.of(tuple(dims), DTYPES["f32"])


def dropout(operand: Attribute, share: float) -> Shaped:
    """Return the operand's shape and dtype. Raises TypeRuleError MU1092, MU1106 for the share to drop."""
    value = tensor("dropout", operand)
    if not 0 <= share < 1:
        raise TypeRuleError("MU1106", f"dropout cannot drop a share of {share:g}", ("0 <= p < 1",))
    return value


def log_sum(operand: Attribute, axes: Sequence[int]) -> TensorType:
    """Drop the axes, as other reductions do; the result is f32."""
    tensor("logsumexp", operand)
    return rules.reduce(operand, axes)
