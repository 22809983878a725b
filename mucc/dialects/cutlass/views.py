"""Trace views of operands back to the tensors in memory."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.views import ExpandOp, IndexMapOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Shaped


class Indexed(NamedTuple):
    """An axis of a view that is axis `axis` of an index tensor of row indices."""

    axis: int


class View(NamedTuple):
    """A value as a view of the tensor `base`.

    `axes[i]` is the axis of `base` that axis i of the view maps to, None for an inserted axis of extent 1. In
    a gather, `rows` is the index tensor, and `row_axis` the axis of `base` that it indexes.
    """

    base: SSAValue
    axes: tuple[int | Indexed | None, ...]
    rows: SSAValue | None = None
    row_axis: int | None = None

    @property
    def base_dims(self) -> tuple[Dim, ...]:
        return Shaped.of(self.base.type).dims


def source_of(value: SSAValue) -> SSAValue:
    """Return the argument or workspace tensor in which the elements of a view lie."""
    base = view_of(value).base
    while isinstance(base.owner, IndexMapOp | RegroupOp):
        base = view_of(base.owner.operand).base
    return base


def view_of(value: SSAValue) -> View:
    """Trace transposes, permutations, inserted axes and gathers back to an argument or a workspace tensor."""
    match value.owner:
        case TransposeOp() as op:
            inner = view_of(op.operand)
            axes = inner.axes
            return View(inner.base, (*axes[:-2], axes[-1], axes[-2]), *inner[2:])
        case PermuteOp() as op:
            inner = view_of(op.operand)
            return View(inner.base, tuple(inner.axes[a] for a in op.order.get_values()), *inner[2:])
        case ExpandOp() as op:
            inner = view_of(op.operand)
            axes = list(inner.axes)
            for axis in op.axes.get_values():
                axes.insert(axis, None)
            return View(inner.base, tuple(axes), *inner[2:])
        case SqueezeOp() as op:
            inner, dropped = view_of(op.operand), op.axes.get_values()
            axes = tuple(a for i, a in enumerate(inner.axes) if i not in dropped)
            return View(inner.base, axes, *inner[2:])
        case GatherOp() as op:
            inner = view_of(op.operand)
            count = len(Shaped.of(op.rows.type).dims)
            row_axis, *others = inner.axes
            assert inner.rows is None and not isinstance(row_axis, Indexed)
            return View(inner.base, (*map(Indexed, range(count)), *others), op.rows, row_axis)
        case _:
            return View(value, tuple(range(len(Shaped.of(value.type).dims))))
