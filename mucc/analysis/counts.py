"""Operations and compulsory bytes of a `mu` kernel, as polynomials in its dims.

A polynomial is a list of terms; a term is a number followed by the dims that it is multiplied with:
`[2, "M", "N", "K"]` is 2·M·N·K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mucc.dialects.mu.ops.contraction import Compute, ContractionOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.rules import is_sparse
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType, dtype_bits

Term = list[int | float | str]
Polynomial = list[Term]


def term(factor: float, dims: Sequence[Dim]) -> Term:
    """A term with the fixed extents multiplied into its number."""
    number = factor * math.prod(d for d in dims if isinstance(d, int))
    return [number, *(d for d in dims if isinstance(d, str))]


def _contraction_term(op: ContractionOp) -> tuple[str, Term]:
    result: Dims = Shaped.of(op.result.type).dims
    inner = Shaped.of(op.lhs.type).dims[-1]
    match op.compute.data:
        case Compute.F32:
            unit, count = "fp32", 2
        case Compute.TF32X3:
            unit, count = "tensor.tf32", 3 * 2
        case compute:
            unit, count = f"tensor.{compute.value}", 2
    if is_sparse(op.lhs.type) or is_sparse(op.rhs.type):
        count //= 2  # half of the products are left out
    return unit, term(count, (*result, inner))


def flops(kernel: KernelOp) -> dict[str, Polynomial]:
    """Multiplications and additions of the contractions, by unit and number format."""
    counts: dict[str, Polynomial] = {}
    for op in kernel.walk():
        if isinstance(op, ContractionOp):
            unit, count = _contraction_term(op)
            counts.setdefault(unit, []).append(count)
    return counts


def compulsory_bytes(kernel: KernelOp) -> Polynomial:
    """Bytes of memory that any implementation moves: each used input read once, each output written once."""
    used = [a.type for a in kernel.body.block.args if a.first_use is not None]
    tensors = [t for t in (*used, *kernel.function_type.outputs) if isinstance(t, TensorType)]
    return [_bytes(type) for type in tensors]


def _bytes(type: TensorType) -> Term:
    """What a tensor takes in memory; of sparse ones half of the values, and 1 bit (f32: 2) of metadata for
    each element, whose padding is left out."""
    bits = dtype_bits(type.element_type)
    if not type.is_sparse:
        return term(bits // 8 if bits % 8 == 0 else bits / 8, type.dims)
    return term(bits / 16 + (0.25 if bits == 32 else 0.125), type.dims)
