"""Count the instructions of functions in compute bodies, for models of what kernels cost."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from mucc.dialects.cutlass.nodes import ComputeOp
from mucc.dialects.mu.ops import elementwise as e

INSTRUCTIONS: dict[type[Operation], int] = {
    e.ErfOp: 22,
    e.GeluOp: 15,
    e.SigmoidOp: 5,
    e.SoftplusOp: 28,
    e.TanhOp: 12,
    e.ExpOp: 5,
    e.Expm1Op: 20,
    e.LogOp: 12,
    e.Log1pOp: 22,
    e.DivOp: 8,
    e.PowOp: 60,
    e.SinOp: 25,
    e.CosOp: 25,
    e.TanOp: 40,
    e.Atan2Op: 30,
}
"""Instructions for an element as ptxas 13.0 makes them of `math.cuh` for sm_90a, where there are several."""

GELU_TANH = 8
"""Those of gelu by tanh."""

FEW, MANY = 8, 15
"""Fewer instructions than `FEW` count as none, others as `MANY`, those of gelu."""


def instructions_class(nodes: Iterable[Operation]) -> int:
    """Return how many instructions functions in an epilogue count as, 0 or `MANY`.

    There are two classes only, since a schedule is a part of a skeleton: within a class a function takes the
    place of another one in a kernel from the cache.
    """
    return MANY if sum(map(instructions, nodes)) >= FEW else 0


def instructions(node: Operation) -> int:
    """Return how many instructions the functions of a compute body take for an element; 0 of other nodes.

    What takes one or two instructions is left out: models that were fitted to measured kernels have it.
    """
    if not isinstance(node, ComputeOp):
        return 0
    return sum(_of(op) for op in node.body.block.ops)


def _of(op: Operation) -> int:
    if isinstance(op, e.GeluOp) and op.uses_tanh:
        return GELU_TANH
    if isinstance(op, e.DivOp) and isinstance(op.rhs.owner, e.ConstantOp):
        return 0
    return INSTRUCTIONS.get(type(op), 0)
