"""C++ names of reductions (mucc/math.cuh, mucc/identity.h)."""

from __future__ import annotations

from typing import Protocol

from xdsl.ir import SSAValue

from mucc.dialects.cutlass.nodes import are_bits
from mucc.dialects.mu.ops.reduction import Reduction, ReductionAttr


class Reducing(Protocol):
    """A node that reduces a value."""

    @property
    def kind(self) -> ReductionAttr: ...
    @property
    def value(self) -> SSAValue: ...


REDUCTIONS = {
    Reduction.SUM: "mucc::Sum",
    Reduction.MAX: "mucc::Max",
    Reduction.MIN: "mucc::Min",
    Reduction.AMAX: "mucc::Amax",
}


def reduction(node: Reducing) -> str:
    """Return the C++ name of a reduction; those of integers work on bits."""
    name = REDUCTIONS[node.kind.data]
    return name.replace("mucc::", "mucc::Integer") if are_bits(node.value) else name


def identity(kind: str) -> str:
    """Return the C++ name of a reduction's identity element."""
    return f"mucc::identity::k{kind.capitalize()}"
