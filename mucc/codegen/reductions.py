"""Reductions by their names in C++ (mucc/math.cuh, mucc/identity.h)."""

from __future__ import annotations

from mucc.dialects.cutlass.nodes import ReductionNode, are_bits
from mucc.dialects.mu.ops.reduction import Reduction

REDUCTIONS = {
    Reduction.SUM: "mucc::Sum",
    Reduction.MAX: "mucc::Max",
    Reduction.MIN: "mucc::Min",
    Reduction.AMAX: "mucc::Amax",
}


def reduction(node: ReductionNode) -> str:
    """The C++ name of a reduction: those of integers work on their bits."""
    name = REDUCTIONS[node.kind.data]
    return name.replace("mucc::", "mucc::Integer") if are_bits(node.value) else name


def identity(kind: str) -> str:
    """The C++ name of what a reduction starts from."""
    return f"mucc::identity::k{kind.capitalize()}"
