"""Maps over equal parts of an axis: a point of their space is an element of each part.

The halves of a rotary embedding are computed from the same elements. A kernel over one half computes both, so
that it reads them once, and chooses nothing by the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from mucc.dialects.cutlass.nodes import StoreOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp, SelectOp
from mucc.dialects.mu.ops.indexed import PickOp, ScatterOp
from mucc.dialects.mu.ops.placed import InsideOp, PlaceOp
from mucc.dialects.mu.ops.shape import SliceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import AXIS_VIEWS, BroadcastOp, GeneratedOp, IndexMapOp, RegroupOp
from mucc.dialects.mu.types import Dim, Dims, TensorType
from mucc.kernels.lowering.access import (
    Access,
    Axes,
    in_memory,
    is_inside,
    operand_axes,
    pointwise_roots,
    root_axes,
    through_views,
)
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.map.op import MapOp
from mucc.library.extents import add, quotient

MOST_PARTS = 4
"""Parts of which one thread computes elements side by side."""

Element = tuple[SSAValue, Axes]
"""A value of a stage, and for each of its axes the axis of the stage's space that walks along it."""


class Part(NamedTuple):
    """The `number`-th part of an axis of a stage's space: `width` indices from `low` on."""

    axis: int
    number: int
    low: Dim
    width: Dim

    @property
    def end(self) -> Dim:
        return add(self.low, self.width)

    def space(self, stage: StageOp) -> Dims:
        """Return the extents of the part."""
        return tuple(self.width if axis == self.axis else dim for axis, dim in enumerate(stage.space))


class _NotDivided(Exception):
    """What a stage computes depends on more of the index than the part that it is in."""


def equal_parts(stage: StageOp) -> list[Part] | None:
    """Return equal parts of an axis, in each of which a map stage computes one expression; None for others.

    They are the parts of a concatenation, and tensors in memory are read by the same parts. Rows that are
    scattered are stored elsewhere.
    """
    if any(isinstance(value.owner, ScatterOp) and is_inside(value, stage) for value in stage.stored):
        return None
    try:
        parts = _parts(stage)
        for part in parts:
            pending = [(root, root_axes(root, stage)) for root in pointwise_roots(stage)]
            seen: set[Element] = set()
            while pending:
                if (element := pending.pop()) not in seen:
                    seen.add(element)
                    pending += _read(element, stage, part)
    except _NotDivided:
        return None
    return parts or None


def _parts(stage: StageOp) -> list[Part]:
    """Return the parts into which the conditions of a stage divide an axis; none where there are none."""
    ends: dict[int, set[Dim]] = {}
    pending = [(root, root_axes(root, stage)) for root in pointwise_roots(stage)]
    seen: set[Element] = set()
    while pending:
        if (element := pending.pop()) in seen:
            continue
        seen.add(element)
        value, axes = element
        if isinstance(op := value.owner, InsideOp) and is_inside(value, stage):
            low, count = op.range
            axis = axes[op.axis.value.data]
            if low != 0 or axis is None:
                raise _NotDivided
            ends.setdefault(axis, set()).add(count)
        pending += _operands(element, stage)
    for axis, found in ends.items():
        whole = stage.space[axis]
        for width in found:
            count = len(found) + 1
            if quotient(whole, width) != count or count > MOST_PARTS:
                continue
            lows: list[Dim] = [0]
            for _ in found:
                lows.append(add(lows[-1], width))
            if set(lows[1:]) == found:
                return [Part(axis, number, low, width) for number, low in enumerate(lows)]
    return []


def _operands(element: Element, stage: StageOp) -> Iterator[Element]:
    """Yield the elements from which one element is computed in a stage."""
    value, axes = element
    op = value.owner
    if is_inside(value, stage) and isinstance(op, (*AXIS_VIEWS, BroadcastOp, ElementwiseOp)):
        yield from ((operand, operand_axes(op, operand, axes)) for operand in op.operands)


def _read(element: Element, stage: StageOp, part: Part) -> Iterator[Element]:
    """Yield the elements from which one element of a part is computed. Raises _NotDivided."""
    value, axes = element
    if (chosen := _chosen(element, stage, part)) is not None:
        yield chosen
        return
    yield from _operands(element, stage)
    if part.axis not in axes:
        return
    op = value.owner
    if is_inside(value, stage) and isinstance(op, GeneratedOp | PickOp | AnchorOp):
        raise _NotDivided
    if not is_inside(value, stage) or isinstance(op, RegroupOp | IndexMapOp):
        _check_memory(value, axes.index(part.axis), part)


def _chosen(element: Element, stage: StageOp, part: Part) -> Element | None:
    """Return the operand that a choice between parts takes in one of them; None for other values."""
    value, axes = element
    op = value.owner
    if not isinstance(op, SelectOp) or not is_inside(value, stage):
        return None
    inside = op.condition.owner
    if not isinstance(inside, InsideOp):
        return None
    if operand_axes(op, op.condition, axes)[inside.axis.value.data] != part.axis:
        return None
    upto = quotient(inside.range[1], part.width)
    taken = op.on_true if upto is not None and part.number < upto else op.on_false
    return taken, operand_axes(op, taken, axes)


def _check_memory(value: SSAValue, axis: int, part: Part) -> None:
    """Raise _NotDivided unless a part of an axis is a part of memory, or an operand that is placed there."""
    if _placed(value, axis, part) is not None:
        return
    while isinstance(op := value.owner, IndexMapOp):
        if isinstance(op, PlaceOp) and op.axis.value.data == axis:
            raise _NotDivided
        value = op.operand
    if isinstance(value.owner, PickOp):
        raise _NotDivided


def _placed(value: SSAValue, axis: int, part: Part) -> SSAValue | None:
    """Return the tensor that is placed exactly in a part of a value's axis; None if there is none."""
    op = value.owner
    if not isinstance(op, PlaceOp) or op.axis.value.data != axis or op.low.data != part.low:
        return None
    type = op.operand.type
    return op.operand if isinstance(type, TensorType) and type.dims[axis] == part.width else None


class PartBody(Body):
    """The nodes by which a kernel computes the elements of one part, added to those of other parts."""

    def __init__(self, whole: Body, part: Part):
        super().__init__(whole.program, whole.stage)
        self.block, self.loads, self.part = whole.block, whole.loads, part

    def _elements(self, key: Element) -> list[Element]:
        if (chosen := _chosen(key, self.stage, self.part)) is not None:
            return [chosen]
        return [] if self._is_read(key) else super()._elements(key)

    def _scalar(self, value: SSAValue, axes: Axes) -> SSAValue:
        if (chosen := _chosen((value, axes), self.stage, self.part)) is not None:
            return self.scalar(*chosen)
        if not self._is_read((value, axes)):
            return super()._scalar(value, axes)
        axis = axes.index(self.part.axis)
        if (placed := _placed(value, axis, self.part)) is None:
            return self.load(Access(self._slice(value, axis), axes))
        access = through_views(placed, axes, self.stage)
        return self.load(Access(_one_view(self, self.program.outside(access.base)), access.axes))

    def _is_read(self, key: Element) -> bool:
        """Whether an element is read from a part of a tensor in memory."""
        value, axes = key
        if self.part.axis not in axes:
            return False
        return not is_inside(value, self.stage) or isinstance(value.owner, RegroupOp | IndexMapOp)

    def _slice(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the part of a tensor as a view; equal views of a tensor are one."""
        base = self.program.outside(value)
        view = SliceOp(base, axis, self.part.low, self.part.end)
        if (known := _known_view(self, view)) is not None:
            view.erase()
            return known
        self.program.block.add_op(view)
        return Rewriter.replace_value_with_new_type(view.result, in_memory(view.result))


def _one_view(body: Body, value: SSAValue) -> SSAValue:
    """Return the first slice of the program that equals this one; return other values as they are."""
    known = _known_view(body, value.owner) if isinstance(value.owner, SliceOp) else None
    return value if known is None else known


def _known_view(body: Body, view: SliceOp) -> SSAValue | None:
    """Return the first other slice of the program that equals this one; None if there is none."""

    def key(op: SliceOp) -> tuple[SSAValue, int, tuple[Dim, Dim, int]]:
        return op.operand, op.axis.value.data, op.range

    users: list[Operation] = [use.operation for use in view.operand.uses]
    same = [op for op in body.program.block.ops if op in users and isinstance(op, SliceOp) and op is not view]
    return next((op.result for op in same if key(op) == key(view)), None)


def lower_parts(
    builder: ProgramBuilder, stage: StageOp, body: Body, name: str, parts: Sequence[Part]
) -> None:
    """Append a map over one of several equal parts of a space, which stores an element of each."""
    places = [builder.destinations(r) for r in stage.outputs]
    for part in parts:
        of_part = PartBody(body, part)
        for root, targets in zip(pointwise_roots(stage), places, strict=True):
            axes = root_axes(root, stage)
            if part.axis not in axes and part.number:
                continue
            value = of_part.scalar(root, axes)
            where = (axes.index(part.axis), part.low) if part.axis in axes else None
            for target in targets:
                to = builder.regrouped(target, root)
                of_part.add(StoreOp(of_part.without_cast(value, target), to, where))
    builder.block.add_op(MapOp(name, parts[0].space(stage), Region(body.block)))
