"""Place the values of a chain of reductions: they fill its space, or have one element a row.

A row is what one result of the reductions is made of: the elements along the reduced axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, SqueezeOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.lowering.access import Axes, identity

REDUCTIONS = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.AMAX)
"""What kernels around chains of reductions compute."""


def placed(op: Operation, anchor: ReduceOp, known: Mapping[SSAValue, Axes]) -> Axes | None:
    """Return the axes of the space along which an operation's result lies, given those of its operands.

    `known` has the values in flight in the kernel around `anchor`. None for a result that neither fills the
    space nor has one element a row, or whose operands are along different axes.
    """
    return placed_in(op, chain_space(anchor), anchor.axes.get_values(), known)


def placed_in(op: Operation, space: Dims, gone: Sequence[int], known: Mapping[SSAValue, Axes]) -> Axes | None:
    """Return the same for a kernel that reduces the axes `gone` of its space."""
    match op:
        case ReduceOp() if reduces(op, space, gone):
            return tuple(axis for i, axis in enumerate(identity(space)) if i not in gone)
        case ExpandOp():
            given, inserted = iter(known[op.operand]), op.axes.get_values()
            rank = len(Shaped.of(op.result.type).dims)
            return tuple(None if i in inserted else next(given) for i in range(rank))
        case SqueezeOp():
            dropped = op.axes.get_values()
            return tuple(axis for i, axis in enumerate(known[op.operand]) if i not in dropped)
        case ElementwiseOp() | BroadcastOp():
            return _aligned(op, space, gone, known)
        case _:
            return None


def _aligned(op: Operation, space: Dims, gone: Sequence[int], known: Mapping[SSAValue, Axes]) -> Axes | None:
    """Return the axes of a pointwise result, aligned at the right; None if operands in flight disagree.

    A result that fills the space may lack axes of extent 1 of it, or have more of them.
    """
    dims = Shaped.of(op.results[0].type).dims
    found: list[int | None] = [None] * len(dims)
    for operand in op.operands:
        for place, axis in enumerate(reversed(known.get(operand, ())), 1):
            if axis is not None:
                if found[-place] not in (None, axis):
                    return None
                found[-place] = axis
    if dims == space and all(axis in (None, i) for i, axis in enumerate(found)):
        return identity(space)
    walked = [axis for axis in found if axis is not None]
    long = [axis for axis in identity(space) if axis is not None]
    fits = all(dim == (1 if axis is None else space[axis]) for dim, axis in zip(dims, found, strict=True))
    # Rows along two axes, as in an outer product of what is reduced, are none.
    has_rows = set(walked).isdisjoint(gone) and len(set(walked)) == len(walked)
    return tuple(found) if fits and (has_rows or walked == long) else None


def chain_space(anchor: ReduceOp) -> Dims:
    """Return the extents of the space of a chain of reductions: those of what they reduce."""
    return Shaped.of(anchor.operand.type).dims


def is_chained(op: AnchorOp, anchor: ReduceOp) -> bool:
    """Whether an operation reduces the space of another reduction over the same axes."""
    return isinstance(op, ReduceOp) and reduces(op, chain_space(anchor), anchor.axes.get_values())


def reduces(op: ReduceOp, space: Dims, gone: Sequence[int]) -> bool:
    """Whether an operation reduces the axes `gone` of a space."""
    return chain_space(op) == space and list(op.axes.get_values()) == list(gone)


def places(stage: StageOp) -> dict[SSAValue, Axes]:
    """Return the axes of the space of each value in flight in a stage around a reduction, in order."""
    anchor = stage.anchor
    assert isinstance(anchor, ReduceOp)
    return places_in(stage, chain_space(anchor), anchor.axes.get_values(), {})


def places_in(
    stage: StageOp, space: Dims, gone: Sequence[int], known: dict[SSAValue, Axes]
) -> dict[SSAValue, Axes]:
    """Return the same for a kernel that reduces the axes `gone` of its space, besides what is known."""
    for op in stage.body.block.ops:
        in_flight = isinstance(op, ReduceOp) or any(operand in known for operand in op.operands)
        if in_flight and (axes := placed_in(op, space, gone, known)) is not None:
            known[op.results[0]] = axes
    return known


def opens_chain(anchor: ReduceOp) -> bool:
    """Whether pointwise work over the space of a reduction uses its result, as that of a softmax does.

    In a stage that is formed, a stored value that fills the space counts as well, or a view of a value in
    flight.
    """
    if isinstance(stage := anchor.parent_op(), StageOp) and _stores_chain(stage, anchor):
        return True
    users = [use.operation for use in anchor.result.uses]
    fills = identity(chain_space(anchor))
    known: dict[SSAValue, Axes] = {anchor.result: placed(anchor, anchor, {}) or ()}
    while users:
        op = users.pop()
        if not op.results or op.results[0] in known or (axes := placed(op, anchor, known)) is None:
            continue
        if axes == fills:
            return True
        known[op.results[0]] = axes
        users += [use.operation for use in op.results[0].uses]
    return False


def _stores_chain(stage: StageOp, anchor: ReduceOp) -> bool:
    """Whether a stage yields a value that fills its space, or has a view of a value in flight."""
    known = places(stage)
    views = (op for op in stage.body.block.ops if isinstance(op, (ExpandOp, SqueezeOp, BroadcastOp)))
    fills = any(Shaped.of(v.type).dims == chain_space(anchor) for v in stage.stored)
    return fills or any(view.operand in known for view in views)
