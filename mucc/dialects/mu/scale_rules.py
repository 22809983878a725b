"""The type rules of scaled operands: groups along K, blocks of 128, and weights that are dequantised."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from mucc.dialects.mu.rules import (
    NARROW_FLOATS,
    WEIGHTS,
    TypeRuleError,
    is_sparse,
    narrow_side,
    shape_text,
)
from mucc.dialects.mu.types import WIDE, Dim, Shaped, TensorType
from mucc.library import extents


def group_scales(lhs: Attribute, rhs: Attribute, scales: Sequence[Attribute]) -> int:
    """Compute the number of elements along K that share a scale of the narrow operand.

    `scales` are the scales and optionally zeros, `[N, K/group]` each, or `[M, K/group]` for a left operand.
    Raises TypeRuleError MU1062 where no operand is narrow, or shapes do not fit.
    """
    side = narrow_side(lhs, rhs)
    dims = Shaped.of(rhs if side else lhs).dims
    rows, inner = (dims[-1], dims[-2]) if side else (dims[-2], dims[-1])
    found = [Shaped.of(s).dims for s in scales]
    if side is None or len(dims) != 2 or not 1 <= len(found) <= 2 or found[0][:-1] != (rows,):
        raise TypeRuleError("MU1062", f"scales {[shape_text(d) for d in found]} fit no narrow operand")
    if found[0] != found[-1]:
        raise TypeRuleError("MU1062", f"zeros {shape_text(found[1])} have not the shape of the scales")
    return group_size(inner, found[0][-1])


def group_size(whole: Dim, parts: Dim) -> int:
    """Compute the number of the `whole` columns that share one of `parts` scales.

    Raises TypeRuleError MU1062.
    """
    if (size := extents.quotient(whole, parts)) is not None:
        return size
    raise TypeRuleError(
        "MU1062",
        f"{parts} scales do not divide {whole} columns into groups",
        notes=("each scale holds for one group of so many columns, and the groups fill all columns",),
        helps=(f"give the scales the extent of the groups, for example `{whole}/128`",),
    )


BLOCK = 128
"""Elements along K that share a scale of a product with block scales (CUTLASS: ScaleGranularityK)."""


def block_scales(lhs: Attribute, rhs: Attribute, scales: Sequence[Attribute]) -> tuple[int, int]:
    """Compute the numbers of rows of A and of columns of B that share a scale: 1 or 128 each.

    Scales of A are f32 `[M, K/128]` or `[M/128, K/128]`, those of B `[N, K/128]` or `[N/128, K/128]`.
    Raises TypeRuleError MU1065 for other shapes, and for operands other than 8-bit floats.
    """
    a, b = Shaped.of(lhs), Shaped.of(rhs)
    if is_sparse(lhs) or is_sparse(rhs):
        raise TypeRuleError("MU1081", "products of sparse matrices take no block scales")
    if a.element_type not in NARROW_FLOATS or b.element_type not in NARROW_FLOATS:
        raise TypeRuleError(
            "MU1065",
            f"operands {a} and {b} take no block scales",
            notes=("products of e4m3 and e5m2 do; other scales are plain arithmetic on the product",),
        )
    if len(a.dims) != 2 or len(b.dims) != 2 or len(scales) != 2:
        raise TypeRuleError(
            "MU1065",
            "block scales are given for both operands of a product of two matrices",
            helps=("write `matmul(x, w.T, scale_a=sx, scale_b=sw)`",),
        )
    return _blocks("a", scales[0], a.dims[0], a.dims[1]), _blocks("b", scales[1], b.dims[1], a.dims[1])


def _blocks(side: str, type: Attribute, rows: Dim, inner: Dim) -> int:
    scales = Shaped.of(type)
    for block in (1, BLOCK) if len(scales.dims) == 2 else ():
        fits = _is_part(scales.dims[1], inner, BLOCK) and _is_part(scales.dims[0], rows, block)
        if fits and scales.element_type == f32 and isinstance(type, TensorType) and type.layout.is_row_major:
            return block
    raise TypeRuleError(
        "MU1065",
        f"scale_{side} is {scales}, but must be f32[{rows}, {inner}/{BLOCK}] or "
        f"f32[{rows}/{BLOCK}, {inner}/{BLOCK}], row-major",
    )


def _is_part(part: Dim, whole: Dim, divisor: int) -> bool:
    """Whether the extent `part` is `whole` divided by `divisor`."""
    if divisor == 1:
        return part == whole
    try:
        return group_size(whole, part) == divisor
    except TypeRuleError:
        return False


def dequantize(operands: Sequence[Attribute]) -> TensorType:
    """Infer dequantised weights: weights `[.., N, K]`, scales and zeros `[.., N, K/group]`.

    The result has the weights' shape and the scales' dtype. Raises TypeRuleError MU1062 where the shapes do
    not fit, MU1064 for dtypes and layouts.
    """
    weights, scales, *zeros = (Shaped.of(t) for t in operands)
    if weights.element_type not in WEIGHTS or scales.element_type not in WIDE:
        raise TypeRuleError(
            "MU1064",
            f"weights {weights} cannot be dequantised by scales {scales}",
            notes=("weights are e4m3, e5m2, s8, u8, s4 or u4; scales are bf16, f16 or f32",),
        )
    if not isinstance(type := operands[0], TensorType) or not type.layout.is_row_major or type.rank < 2:
        raise TypeRuleError("MU1064", f"weights {type} must be a row-major matrix of groups along its rows")
    for other in (scales, *zeros):
        if other.dims[:-1] != weights.dims[:-1] or other.dims != scales.dims:
            raise TypeRuleError(
                "MU1062",
                f"scales or zeros {shape_text(other.dims)} do not fit weights {shape_text(weights.dims)}",
                helps=(f"they have the rows of the weights, and fewer columns: `{weights.dims[-1]}/128`",),
            )
    group_size(weights.dims[-1], scales.dims[-1])
    return TensorType.of(weights.dims, scales.element_type)
