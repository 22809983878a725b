"""Choose the bodies of a norm that are compiled apart and spliced into its skeleton."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, YieldOp
from mucc.dialects.mu.ops import elementwise as e

_ARITHMETIC = (e.AddOp, e.SubOp, e.MulOp, e.DivOp, e.NegOp, e.CastOp, e.ConstantOp, YieldOp)
"""Operations of bodies that are a few instructions."""

_STRAIGHT = (
    *_ARITHMETIC,
    *(e.AbsOp, e.MinOp, e.MaxOp, e.SignOp, e.FloorOp, e.CeilOp, e.RoundOp, e.TruncOp),
    *(e.CmpOp, e.SelectOp, e.AndOp, e.OrOp, e.NotOp),
    *(e.ExpOp, e.Expm1Op, e.SqrtOp, e.RsqrtOp, e.TanhOp, e.SigmoidOp, e.GeluOp),
)
"""Operations without branches in PTX: ptxas computes once what several bodies compute of the same values."""


def spliced(
    computing: Sequence[ComputeOp],
    wanted: Sequence[Collection[Operation]],
    is_of_row: Callable[[SSAValue], bool],
) -> list[ComputeOp]:
    """Return the bodies that are spliced; none where LLVM saves work that ptxas would not.

    `wanted` are the nodes that each phase needs and, last, those that stores of all elements need.
    `is_of_row` tells whether a value is the same for all elements of a row. Bodies of phases that are
    arithmetic alone, such as the squares of a norm, stay in the skeleton: a spliced body is also computed for
    elements behind the end of a row, and then ptxas keeps elements of 16 bits as f32 between phases, in twice
    as many registers.
    """
    per_element = [op for nodes in wanted for op in computing if op in nodes]
    functions = [function for op in per_element for function in {type(f) for f in _branching(op)}]
    if len(set(functions)) < len(functions) or any(_repeats(op, is_of_row) for op in per_element):
        return []
    reduced = {op for nodes in wanted[:-1] for op in nodes}
    return [op for op in computing if op not in reduced or not is_arithmetic(op)]


def _branching(op: ComputeOp) -> list[Operation]:
    return [inner for inner in op.body.block.ops if not isinstance(inner, _STRAIGHT)]


def is_arithmetic(op: ComputeOp) -> bool:
    """Whether a body is a few instructions."""
    return all(isinstance(inner, _ARITHMETIC) for inner in op.body.block.ops)


def _repeats(op: ComputeOp, is_of_row: Callable[[SSAValue], bool]) -> bool:
    """Whether a function with branches has one value for a row, which a body would compute per element."""
    of_row: set[SSAValue] = set()
    for inner in op.body.block.ops:
        if all(
            value in of_row or (isinstance(value, BlockArgument) and is_of_row(op.inputs[value.index]))
            for value in inner.operands
        ):
            of_row.update(inner.results)
    return any(result in of_row for inner in _branching(op) for result in inner.results)
