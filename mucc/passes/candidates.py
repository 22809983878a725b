"""Stages as places for an operation, with what each saves, or the reason against it."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import GeneratedOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.traffic import Traffic
from mucc.passes.forming import Candidate, Needs, Place, Stage, added, joins, refused, wait
from mucc.passes.values import Values, dims_of

WAITS = "an operand comes from a kernel that waits for this one"


def taken(values: Values, stage: Stage, op: AnchorOp, needs: Needs) -> Candidate:
    """Return, as a candidate for a further anchor, a stage that has the anchor's operand in flight."""
    if op.operands[0] in values.ranges:
        return refused(stage, "its operand is a range of the columns that the kernel has")
    if wait(needs, stage):
        return refused(stage, WAITS)
    return Candidate(Place.JOINED, stage, stage.kind.takes(stage, op))


def beside(values: Values, stage: Stage, op: AnchorOp) -> Candidate:
    """Return, as a candidate for a further anchor, a stage whose kernel can compute that result, too."""
    needs = values.needs(op.operands[0])
    if wait(needs, stage):
        return refused(stage, WAITS)
    return joins(stage, added(needs) - added(needs, stage))


def computed(values: Values, stage: Stage, op: ElementwiseOp, alone: Traffic) -> Candidate:
    """Return a stage as a candidate for pointwise work, which moves `alone` if a map computes it."""
    part = range_of(values, stage, op)
    if part is not None:
        if (reason := _not_of_range(values, stage, op, part)) is not None:
            return refused(stage, reason)
    elif stage.kind.placed(stage, op) is None:
        dims = dims_of(op.result)
        if dims == stage.space:
            return refused(stage, "it takes a value of the stage along other axes than the stage computes it")
        return refused(stage, f"its shape {_shape(dims)} is not the stage's {_shape(stage.space)}")
    if op.computes_integers and not stage.kind.takes_integers:
        return refused(stage, f"{stage.kind.name} kernels compute no integers")
    needs = elsewhere(values, stage, op)
    if wait(needs, stage):
        return refused(stage, WAITS)
    try:
        stored = integers(values, stage, op)
    except ComparedIntegersError:
        return refused(stage, f"{stage.kind.name} kernels compare no integers")
    maps = Traffic.sum(Traffic.of(root.type) * 2 for root in stored)
    return joins(stage, alone - added(needs, stage) - maps, 1 - len(stored))


def range_of(values: Values, stage: Stage, op: ElementwiseOp) -> Operation | None:
    """Return the range of a stage's columns that an operation reads in flight; None if it reads none."""
    found = (values.ranges[v] for v in op.operands if values.home.get(v) is stage and v in values.ranges)
    return next(found, None)


def _not_of_range(values: Values, stage: Stage, op: ElementwiseOp, part: Operation) -> str | None:
    """Return why pointwise work on a range of columns cannot be stored in place of these; None if it can."""
    if Shaped.of(op.result.type) != Shaped.of(part.results[0].type):
        return "ranges of the kernel's columns are stored in one dtype, and none has other extents"
    for operand in op.operands:
        if values.home.get(operand) is stage:
            if values.ranges.get(operand) is not part:
                return "an operand is another part of the kernel's columns"
        elif (dims := dims_of(operand)) and dims[-1] != 1:
            return "an operand varies along a range of the kernel's columns"
    return None


def elsewhere(values: Values, stage: Stage, op: ElementwiseOp) -> Needs:
    """Return the values in memory that an operation needs in a stage, besides what is in flight there."""
    needs: Needs = {}
    for operand in op.operands:
        if values.home.get(operand) is not stage:
            needs |= values.needs(operand)
    return needs


class ComparedIntegersError(Exception):
    """A bool that is computed from integers: a kernel without integers cannot, and no map can store it."""


def integers(values: Values, stage: Stage, op: ElementwiseOp) -> list[SSAValue]:
    """Return the integers behind operands that maps have to store for a kernel without integers.

    Raises ComparedIntegersError for a bool that depends on integers.
    """
    if stage.kind.takes_integers:
        return []
    found: list[SSAValue] = []
    pending = [v for v in reversed(op.operands) if values.home.get(v) is not stage]
    seen = set[SSAValue]()
    while pending:
        root = values.root(pending.pop())
        if root in seen or values.writer(root) is not None:
            continue
        seen.add(root)
        if not isinstance(owner := root.owner, ElementwiseOp | GeneratedOp):
            continue
        if isinstance(owner, GeneratedOp) or owner.computes_integers:
            if Shaped.of(root.type).element_type == i1:
                raise ComparedIntegersError
            found.append(root)
        else:
            pending += owner.operands
    return found


def unreached(values: Values, operand: SSAValue) -> Candidate | None:
    """Return the stage that an operand comes from, and the reason why none of its readers joins it."""
    pin, root = operand.owner, values.root(operand)
    if (stage := values.writer(root)) is None:
        return None
    if isinstance(pin, PinOp):
        return refused(stage, f"`stage {pin.stage.data} = ...` ends the stage")
    if stage is values.home.get(operand):
        return refused(stage, "it reads its operands from memory")
    if stage is values.home.get(root) and isinstance(pin, Operation):
        return refused(stage, f"it reads the stage's value through {word(pin)}")
    if stage.anchor is None:
        return refused(stage, "a map stores the operand for kernels that read it from memory")
    return refused(stage, f"the result of {word(root.owner)} is read from memory")


def _shape(dims: Dims) -> str:
    return f"[{', '.join(map(str, dims))}]"


def word(op: Operation | Block) -> str:
    """Return the name of an operation of `mu` in messages."""
    if isinstance(op, ReduceOp):
        return op.kind.data
    return op.name.removeprefix("mu.") if isinstance(op, Operation) else "a parameter"
