"""Type rules of operations that take an s32 index tensor: grouped products, gather, scatter.

As in `rules`, each function infers a result type, and raises TypeRuleError with the code of the broken rule.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from mucc.dialects.mu.rules import (
    NARROW_FLOATS,
    NARROW_INTEGERS,
    TypeRuleError,
    not_packed,
    product_type,
    shape_text,
)
from mucc.dialects.mu.types import DTYPES, WIDE, Dim, Shaped, TensorType, dtype_name


def index_tensor(what: str, type: Attribute) -> Shaped:
    """Check an index tensor. Raises TypeRuleError MU1072 for another dtype than s32."""
    index = Shaped.of(type)
    if index.element_type != DTYPES["s32"] or not isinstance(type, TensorType):
        helps = ("write `cast(..., s32)`",) if isinstance(type, TensorType) else ()
        raise TypeRuleError("MU1072", f"{what} must be a tensor of s32, got {index}", helps=helps)
    return index


_DTYPE_PAIRS = (*((dtype,) for dtype in WIDE), NARROW_FLOATS, NARROW_INTEGERS)
"""Sets of dtypes that the two operands of a grouped product may be drawn from."""


def grouped_matmul(lhs: Attribute, rhs: Attribute, offsets: Attribute) -> TensorType:
    """Infer the type of a grouped product: `[T, K]`, `[E, K, N]` and `offsets` `[E]` to `[T, N]`.

    Raises TypeRuleError MU1070 (axes), MU1071 (number of groups), MU1072 (offsets), MU1024 (inner extents),
    MU1025 (dtypes).
    """
    a, b, ends = Shaped.of(lhs), Shaped.of(rhs), index_tensor("offsets", offsets)
    for what, value, axes, form in (
        ("the left operand", a, 2, "[T, K]"),
        ("the right operand", b, 3, "[E, K, N]"),
        ("offsets", ends, 1, "[E]"),
    ):
        if len(value.dims) != axes:
            raise TypeRuleError(
                "MU1070",
                f"{what} of grouped_matmul has {axes} {'axis' if axes == 1 else 'axes'}, {form}, got {value}",
                notes=("the rows of all groups lie one after the other, and each group has its own matrix",),
            )
    if ends.dims[0] != b.dims[0]:
        raise TypeRuleError(
            "MU1071",
            f"{ends.dims[0]} offsets for {b.dims[0]} matrices",
            notes=("offsets[g] is the end of group g, so there is one for each matrix",),
        )
    if a.dims[1] != b.dims[1]:
        transposed = a.dims[1] == b.dims[2]
        raise TypeRuleError(
            "MU1024",
            f"inner extents of grouped_matmul differ: {shape_text(a.dims)} and {shape_text(b.dims)} "
            f"have {a.dims[1]} against {b.dims[1]}",
            helps=("the right operand has the inner extent last: transpose it with `.T`",)
            if transposed
            else (),
        )
    if not any({a.element_type, b.element_type} <= set(dtypes) for dtypes in _DTYPE_PAIRS):
        raise TypeRuleError(
            "MU1025",
            f"operands of grouped_matmul have dtypes {dtype_name(a.element_type)} and "
            f"{dtype_name(b.element_type)}, but both must have the same one",
            notes=(
                "bf16, f16 and f32 multiply with themselves, e4m3 and e5m2 with each other, s8 and u8 too",
            ),
            helps=("convert them: `cast(..., bf16)`",),
        )
    return TensorType.of((a.dims[0], b.dims[2]), product_type(lhs=a.element_type, rhs=b.element_type))


def by_group(
    product: TensorType, rhs: Attribute, scale: Attribute | None, bias: Attribute | None
) -> TensorType:
    """Infer the type of a grouped product by `rhs` after a scale `[E]` and a bias `[E, N]` for each group.

    Raises TypeRuleError MU1075.
    """
    groups, _, columns = Shaped.of(rhs).dims
    for what, type, dims in (("scale", scale, (groups,)), ("bias", bias, (groups, columns))):
        if type is None:
            continue
        if Shaped.of(type).dims != dims or Shaped.of(type).element_type not in WIDE:
            raise TypeRuleError(
                "MU1075",
                f"the {what} of grouped_matmul is {Shaped.of(type)}, not {shape_text(dims)} of floats",
                notes=("a scale is a number for each group, a bias a row for each, of bf16, f16 or f32",),
            )
    if product.element_type == DTYPES["s32"] and (scale or bias):
        return TensorType.of(product.dims, DTYPES["f32"])
    return product


def gather(operand: Attribute, rows: Attribute) -> TensorType:
    """Infer a gather: `[T, ...]` by rows `[M, ...]` to `[M, ..., ...]`.

    Raises TypeRuleError MU1072, MU1073.
    """
    value, index = _rows_of("gather", operand), index_tensor("rows", rows)
    not_packed(value)
    return TensorType.of((*index.dims, *value.dims[1:]), value.element_type)


def scatter(operand: Attribute, rows: Attribute, extent: Dim) -> TensorType:
    """Infer a scatter of `[M, ...]` to rows `[M]` of `[extent, ...]`.

    Raises TypeRuleError MU1072, MU1073, MU1074.
    """
    value, index = _rows_of("scatter", operand), index_tensor("rows", rows)
    if index.dims != value.dims[:1]:
        raise TypeRuleError(
            "MU1074",
            f"rows {shape_text(index.dims)} do not say where the {value.dims[0]} rows of {value} go",
            notes=("scatter needs one number for each row",),
        )
    return TensorType.of((extent, *value.dims[1:]), value.element_type)


def _rows_of(what: str, type: Attribute) -> Shaped:
    value = Shaped.of(type)
    if not value.dims or value.element_type == i1:
        raise TypeRuleError("MU1073", f"{what} needs a tensor with rows, got {value}")
    return value
