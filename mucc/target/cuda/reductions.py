"""Reductions by their names in C++ (mucc/math.cuh, mucc/identity.h)."""

from __future__ import annotations

from mucc.dialects.mu.ops.reduction import Reduction

REDUCTIONS = {
    Reduction.SUM: "mucc::Sum",
    Reduction.MAX: "mucc::Max",
    Reduction.MIN: "mucc::Min",
    Reduction.AMAX: "mucc::Amax",
}


def identity(kind: str) -> str:
    """The C++ name of what a reduction starts from."""
    return f"mucc::identity::k{kind.capitalize()}"
