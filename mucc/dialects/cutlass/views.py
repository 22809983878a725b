"""Trace views of operands back to the tensors in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.indexed import GatherOp, TakeAlongOp
from mucc.dialects.mu.ops.views import ExpandOp, IndexMapOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Shaped

Axes = tuple[int | None, ...]


class View(NamedTuple):
    """A value as a view of the tensor `base`.

    `axes[i]` is the axis of `base` that axis i of the view maps to, None where the view does not move along
    `base`. Where elements are picked by index, `rows` is the index tensor, `row_axis` the axis of `base` that
    it indexes. `row_axes[i]` is the axis of `rows` that axis i of the view maps to, or None.
    """

    base: SSAValue
    axes: Axes
    row_axes: Axes
    rows: SSAValue | None = None
    row_axis: int | None = None

    @property
    def base_dims(self) -> tuple[Dim, ...]:
        return Shaped.of(self.base.type).dims

    def arranged(self, order: Sequence[int | None]) -> View:
        """Return the view whose axis i is axis `order[i]` of this one, or new and of extent 1 where None."""
        axes, row_axes = (
            tuple(None if i is None else given[i] for i in order) for given in (self.axes, self.row_axes)
        )
        return self._replace(axes=axes, row_axes=row_axes)


def source_of(value: SSAValue) -> SSAValue:
    """Return the argument or workspace tensor in which the elements of a view lie."""
    base = view_of(value).base
    while isinstance(base.owner, IndexMapOp | RegroupOp):
        base = view_of(base.owner.operand).base
    return base


def view_of(value: SSAValue) -> View:
    """Trace transposes, permutations, inserted axes and picked elements back to an argument or workspace."""
    match value.owner:
        case TransposeOp() as op:
            *outer, row, column = range(len(Shaped.of(op.operand.type).dims))
            return view_of(op.operand).arranged([*outer, column, row])
        case PermuteOp() as op:
            return view_of(op.operand).arranged(op.order.get_values())
        case ExpandOp() as op:
            order: list[int | None] = list(range(len(Shaped.of(op.operand.type).dims)))
            for axis in op.axes.get_values():
                order.insert(axis, None)
            return view_of(op.operand).arranged(order)
        case SqueezeOp() as op:
            dropped = op.axes.get_values()
            rank = len(Shaped.of(op.operand.type).dims)
            return view_of(op.operand).arranged([i for i in range(rank) if i not in dropped])
        case GatherOp() as op:
            inner = view_of(op.operand)
            named = range(len(Shaped.of(op.rows.type).dims))
            row_axis, *others = inner.axes
            assert inner.rows is None
            axes = (*(None for _ in named), *others)
            return View(inner.base, axes, (*named, *(None for _ in others)), op.rows, row_axis)
        case TakeAlongOp() as op:
            inner = view_of(op.operand)
            assert inner.rows is None
            axes = list(inner.axes)
            row_axis, axes[op.row_axis] = axes[op.row_axis], None
            return View(inner.base, tuple(axes), tuple(range(len(axes))), op.rows, row_axis)
        case _:
            axes = range(len(Shaped.of(value.type).dims))
            return View(value, tuple(axes), tuple(None for _ in axes))
