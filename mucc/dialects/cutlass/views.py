"""Tracing a view back to the memory that it looks into."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Dim, Shaped


class Indexed(NamedTuple):
    """An axis of a view that walks along axis `axis` of an index tensor, which names rows of the base."""

    axis: int


class View(NamedTuple):
    """How a value looks into `base`.

    `axes[i]` is the base axis behind axis i of the view, None for an inserted axis of extent 1. Where rows
    are gathered, `rows` is the index tensor that names them, and `row_axis` the base axis that it walks.
    """

    base: SSAValue
    axes: tuple[int | Indexed | None, ...]
    rows: SSAValue | None = None
    row_axis: int | None = None

    @property
    def base_dims(self) -> tuple[Dim, ...]:
        return Shaped.of(self.base.type).dims


def view_of(value: SSAValue) -> View:
    """Follow axes in another order and inserted ones back to a program argument or a workspace tensor."""
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
        case GatherOp() as op:
            inner = view_of(op.operand)
            count = len(Shaped.of(op.rows.type).dims)
            row_axis, *others = inner.axes
            assert inner.rows is None and not isinstance(row_axis, Indexed)
            return View(inner.base, (*map(Indexed, range(count)), *others), op.rows, row_axis)
        case _:
            return View(value, tuple(range(len(Shaped.of(value.type).dims))))
