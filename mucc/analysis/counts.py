"""Operations and compulsory bytes of a `mu` kernel, as polynomials in its dims.

A polynomial is a list of terms; a term is a number followed by the dims that it is multiplied with:
`[2, "M", "N", "K"]` is 2·M·N·K.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from mucc.analysis.pointwise import pointwise
from mucc.analysis.products import Term, products, term
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import TensorType

Polynomial = list[Term]


def flops(kernel: KernelOp) -> dict[str, Polynomial]:
    """Multiplications and additions of products and convolutions, by unit and number format."""
    counts: dict[str, Polynomial] = {}
    for op in kernel.walk():
        for unit, count in products(op):
            counts.setdefault(unit, []).append(count)
    return counts


def work(op: Operation, *, masked: bool = False) -> list[tuple[str, Term]]:
    """Count the work of one operation by unit: `tensor.<format>`, `fp32` and `special`.

    What tensors may mask counts as work where `masked`, and else as none.
    """
    return [*products(op, masked=masked), *pointwise(op, masked=masked)]


def operations(ops: Iterable[Operation], *, masked: bool = False) -> dict[str, Polynomial]:
    """Sum up the work of operations by unit, each done once per element of its result, as `work` counts it.

    Composites count as they are: `decompose` first, for what they are made of.
    """
    counts: dict[str, Polynomial] = {}
    for op in ops:
        for unit, count in work(op, masked=masked):
            counts.setdefault(unit, []).append(count)
    return counts


def compulsory_bytes(kernel: KernelOp) -> Polynomial:
    """Count compulsory bytes: each used input read once, each output written once."""
    used = [a.type for a in kernel.body.block.args if a.first_use is not None]
    tensors = [t for t in (*used, *kernel.function_type.outputs) if isinstance(t, TensorType)]
    return [tensor_bytes(type) for type in tensors]


def tensor_bytes(type: TensorType) -> Term:
    """Return the bytes of a tensor in memory; of a sparse one half of the values, and metadata without
    padding.
    """
    bits = type.bits_per_element
    return term(bits // 8 if bits % 8 == 0 else bits / 8, type.dims)
