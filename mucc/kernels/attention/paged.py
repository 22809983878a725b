"""The pattern of attention to keys and values that lie in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from mucc.dialects.mu.ops.attention import AttentionLogSumExpOp, AttentionOp, ScoredAttentionOp, ScoresOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.shape import ReshapeOp, SliceOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType, dtype_bits
from mucc.dialects.walk import postorder
from mucc.kernels.attention.operands import is_few, is_narrow, takes
from mucc.library.extents import multiply
from mucc.target.facts import WIDEST_ACCESS

STEP = 16
"""Keys that a warp reads at a time, which lie in one page."""


class Pool(NamedTuple):
    """Pages `[P, ..]`, and the table `[B, N]` of those of each sequence.

    `order` has the axes of the pages as keys have them, `[.., P, R, D]`, and `inserted` those of one element.
    The first rows of two pages that follow each other lie `apart` rows apart in memory.
    """

    pages: SSAValue
    table: SSAValue
    order: tuple[int, ...]
    inserted: tuple[int, ...]
    apart: Dim

    @property
    def size(self) -> tuple[Dim, Dim, Dim]:
        """How many pages there are, their rows, and `apart`: what keys and values must have in common."""
        dims = Shaped.of(self.pages.type).dims
        return dims[0], dims[self.order[-2]], self.apart


class _Axis(NamedTuple):
    """An axis of gathered pages: two of the table, then those of a page by their numbers from 1 on."""

    number: int
    extent: Dim


def _gathered(op: GatherOp) -> tuple[list[list[_Axis]], SSAValue]:
    """Return the axes of gathered pages, and the table, which may have been flattened."""
    table = op.rows
    if len(Shaped.of(table.type).dims) == 1 and isinstance(table.owner, ReshapeOp | RegroupOp):
        table = table.owner.operand
    sequences = [_Axis(i, d) for i, d in zip((-1, 0), Shaped.of(table.type).dims, strict=False)]
    own = [[_Axis(i, d)] for i, d in enumerate(Shaped.of(op.operand.type).dims) if i > 0]
    return ([[a] for a in sequences] if table is op.rows else [sequences]) + own, table


def _regrouped(axes: Sequence[Sequence[_Axis]], dims: Dims) -> list[list[_Axis]] | None:
    """Divide axes, in their order, among those of a reshaped tensor; None where one of them is split."""
    left = [axis for group in axes for axis in group]
    groups: list[list[_Axis]] = []
    for extent in dims:
        group = [left.pop(0)] if extent == 1 and left and left[0].extent == 1 else []
        while left and multiply([a.extent for a in group]) != extent:
            group.append(left.pop(0))
        if multiply([a.extent for a in group]) != extent:
            return None
        groups.append(group)
    return None if left else groups


def _axes_of(value: SSAValue) -> tuple[list[list[_Axis]], GatherOp, SSAValue] | None:
    """Return which axes of gathered pages the axes of a value are, what gathers them, and the table."""
    view = value.owner
    if isinstance(view, GatherOp):
        axes, table = _gathered(view)
        return (axes, view, table) if len(Shaped.of(table.type).dims) == 2 else None
    if not isinstance(view, ExpandOp | PermuteOp | TransposeOp | ReshapeOp | RegroupOp):
        return None
    if (found := _axes_of(view.operands[0])) is None:
        return None
    axes, op, table = found
    match view:
        case ExpandOp():
            for axis in view.axes.get_values():
                axes.insert(axis, [])
        case PermuteOp():
            axes = [axes[i] for i in view.order.get_values()]
        case TransposeOp():
            axes = [*axes[:-2], axes[-1], axes[-2]]
        case _:
            if (groups := _regrouped(axes, Shaped.of(value.type).dims)) is None:
                return None
            axes = groups
    return axes, op, table


def _apart(pages: SSAValue, rows: int) -> Dim | None:
    """Return how many rows lie between the first rows of pages, whose axis `rows` has their rows.

    None where kernels cannot read the pages where they lie: those of an argument in row-major order, or of
    slices of one.
    """
    axes = [*range(len(Shaped.of(pages.type).dims))]
    granule = WIDEST_ACCESS * 8 // dtype_bits(Shaped.of(pages.type).element_type)
    while not isinstance(pages, BlockArgument):
        if isinstance(view := pages.owner, SqueezeOp):
            dropped = view.axes.get_values()
            kept = [i for i in range(len(Shaped.of(view.operand.type).dims)) if i not in dropped]
            axes = [kept[a] for a in axes]
        elif isinstance(view, SliceOp):
            axis, (start, _, step), dims = view.axis.value.data, view.range, Shaped.of(view.operand.type).dims
            is_last, extents = axis == len(dims) - 1, (start, dims[axis])
            if step != 1 or axis == axes[rows]:
                return None
            if is_last and not all(isinstance(e, int) and e % granule == 0 for e in extents):
                return None
        else:
            return None
        pages = view.operand
    dims = Shaped.of(pages.type).dims
    is_row_major = isinstance(pages.type, TensorType) and pages.type.layout.is_row_major
    if not is_row_major or axes[-1] != len(dims) - 1 or rows == len(axes) - 1:
        return None
    return multiply(dims[axes[0] + 1 : axes[rows] + 1])


def _pool(value: SSAValue) -> Pool | None:
    """Return the pages of keys or values `[B, .., N * R, D]` of sequences; None where they are none."""
    if (found := _axes_of(value)) is None:
        return None
    axes, op, table = found
    (first, *lead, rows, last), dims = axes, Shaped.of(op.operand.type).dims
    numbers = [[a.number for a in group] for group in (first, rows, last)]
    if numbers[0] != [-1] or numbers[1][:1] != [0] or [len(n) for n in numbers[1:]] != [2, 1]:
        return None
    if any(len(group) > 1 for group in lead):
        return None
    row, width = numbers[1][1], numbers[2][0]
    order = (*(group[0].number for group in lead if group), 0, row, width)
    page = dims[row]
    if sorted(order) != [*range(len(dims))] or not isinstance(page, int) or page % STEP:
        return None
    apart = _apart(op.operand, row)
    inserted = tuple(i for i, group in enumerate(lead) if not group)
    return None if apart is None else Pool(op.operand, table, order, inserted, apart)


def _rows(pool: Pool) -> list[Operation]:
    """Return views of all pages as `[.., P, R, D]`."""
    turned = PermuteOp(pool.pages, pool.order)
    return [turned, ExpandOp(turned, list(pool.inserted))] if pool.inserted else [turned]


def _same_scores(op: AttentionOp | ScoredAttentionOp) -> list[AttentionLogSumExpOp | ScoresOp]:
    """Return the operations beside attention on its scores: their products, or their log-sum-exps."""
    if isinstance(op, AttentionOp):
        readers = dict.fromkeys(use.operation for use in op.query.uses)
        return [s for s in readers if isinstance(s, AttentionLogSumExpOp) and s.is_of(op)]

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, ElementwiseOp) else ()

    products = (v.owner for v in postorder(op.scores, operands) if isinstance(v.owner, ScoresOp))
    return [s for s in products if s.query is op.query and s.key is op.key]


class Paged(RewritePattern):
    """Attention to gathered pages -> attention that reads pages where they lie, and gathers nothing.

    ```
    %g = mu.gather %k rows %table
    %r = mu.reshape %g
    %k = mu.permute %r order [0, 2, 1, 3]          ->   %p = mu.permute %k order [2, 0, 1, 3]
    %s = mu.scores %q, %k                               %s = mu.scores %q, %p pages %table
    ```

    Pages may be slices of an argument, such as the keys of a cache of keys and values, and have heads before
    rows.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AttentionOp | ScoredAttentionOp) or op.pages is not None:
            return
        if not takes(op.query, op.key, op.value, op.space):
            return
        if is_narrow(op.query) and not is_few(op.space):
            return  # values of e4m3 are transposed for many queries, each sequence's by itself
        key, value = _pool(op.key), _pool(op.value)
        if key is None or value is None or not isinstance(gathered := op.key.owner, Operation):
            return
        # Sequences are along the first axis of the scores.
        same = len(op.space) == len(Shaped.of(op.key.type).dims)
        if not same or key.table is not value.table or key.size != value.size:
            return
        keys = _rows(key)
        values = [] if value == key else _rows(value)
        table = ExpandOp(key.table, list(range(1, len(op.space) - 2)))
        given = {"key": keys[-1].results[0], "value": (values or keys)[-1].results[0], "pages": table.result}
        # All operations on the scores stand behind the keys, but not behind the values.
        rewriter.insert([*keys, table], InsertPoint.before(gathered))
        rewriter.insert(values, InsertPoint.before(op))
        for inner in (*_same_scores(op), op):
            rewriter.replace(inner, [new := inner.in_pages(given)], [new.result])
