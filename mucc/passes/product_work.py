"""Estimate the cost of products of matrices, for passes that replace them."""

from __future__ import annotations

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.rules import is_sparse
from mucc.dialects.mu.types import WIDE, Dim, Shaped
from mucc.kernels.traffic import LARGE

LEAST = 1 << 27
"""Products with fewer multiplications take no longer than the launches of two kernels do."""

ROWS = 16
"""A product of fewer rows takes as long as reading its other operand, which has to be read anyway."""


def is_plain(product: MatmulOp) -> bool:
    """Whether a product is of floats, dense, and has no scales."""
    if product.scales or product.mixed is not None or Shaped.of(product.result.type).element_type not in WIDE:
        return False
    return not any(is_sparse(v.type) for v in (product.lhs, product.rhs))


def work(*extents: Dim) -> int:
    """Return how many multiplications a product of such extents is; an open dim counts as large."""
    count = 1
    for extent in extents:
        count *= extent if isinstance(extent, int) else LARGE
    return count
