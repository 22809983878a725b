"""C++ names of reductions (mucc/math.cuh, mucc/identity.h)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mucc.dialects.cutlass.nodes import are_bits
from mucc.dialects.mu.ops.reduction import Reduction

REDUCTIONS = {
    Reduction.SUM: "mucc::Sum",
    Reduction.PROD: "mucc::Product",
    Reduction.MAX: "mucc::Max",
    Reduction.MIN: "mucc::Min",
    Reduction.AMAX: "mucc::Amax",
}


def reduction(kind: Reduction, value: SSAValue) -> str:
    """Return the C++ name of a reduction of a node's value; those of integers work on bits."""
    name = REDUCTIONS[kind]
    return name.replace("mucc::", "mucc::Integer") if are_bits(value) else name


def identity(kind: str) -> str:
    """Return the C++ name of a reduction's identity element."""
    return f"mucc::identity::k{kind.capitalize()}"
