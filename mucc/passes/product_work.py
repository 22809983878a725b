"""Estimate the cost of products of matrices, for passes that replace them."""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation

from mucc.dialects.mu.ops.contraction import ContractionOp, MatmulOp
from mucc.dialects.mu.rules import is_sparse
from mucc.dialects.mu.types import WIDE, Dim, Shaped, dtype_bytes
from mucc.kernels.traffic import LARGE
from mucc.target.facts import Facts

LEAST = 1 << 27
"""Products with fewer multiplications take no longer than the launches of two kernels do."""

ROWS = 16
"""A product of fewer rows takes as long as reading its other operand, which has to be read anyway."""


def is_plain(product: MatmulOp) -> bool:
    """Whether a product is of floats, dense, and has no scales."""
    if not product.has_plain_operands or Shaped.of(product.result.type).element_type not in WIDE:
        return False
    return not any(is_sparse(v.type) for v in (product.lhs, product.rhs))


def work(*extents: Dim) -> int:
    """Return how many multiplications a product of such extents is; an open dim counts as large."""
    count = 1
    for extent in extents:
        count *= extent if isinstance(extent, int) else LARGE
    return count


def outweighs_storing(op: Operation, facts: Facts) -> bool:
    """Whether to compute an element of a product or convolution takes longer than to store and read it.

    Both at the rates of the datasheet of the target's first card. Other operations outweigh it always.
    """
    if not isinstance(op, ContractionOp) and op.name not in ("mu.conv", "mu.conv_transpose"):
        return True
    (device, *_), sm = facts.devices, facts.multiprocessor
    compute, terms = _compute_and_terms(op)
    rate = sm.flops_per_cycle(compute) * device.clock(sm) * device.multiprocessors
    moved = 2 * dtype_bytes(Shaped.of(op.results[0].type).element_type)
    return 2 * terms / rate >= moved / device.datasheet["dram_bandwidth"]


def _compute_and_terms(op: Operation) -> tuple[str, float]:
    """Return the format in which a product multiplies, and of how many products an element is the sum."""
    if isinstance(op, ContractionOp):
        return op.compute.data, work(Shaped.of(op.lhs.type).dims[-1])
    from mucc.dialects.mu.ops.conv import ConvolutionOp, ConvTransposeOp

    assert isinstance(op, ConvolutionOp)
    terms = work(*Shaped.of(op.weight.type).dims) / work(op.result_dims[1])
    if isinstance(op, ConvTransposeOp):
        terms /= prod(op.stride.get_values())
    return op.compute.data, terms
