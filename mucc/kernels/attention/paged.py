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
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, RegroupOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.walk import postorder
from mucc.kernels.attention.operands import is_few, is_narrow, takes
from mucc.library.extents import multiply

STEP = 16
"""Keys that a warp reads at a time, which lie in one page."""


class Pool(NamedTuple):
    """Pages `[P, page, H, D]`, the table `[B, N]` of those of each sequence, and axes inserted behind."""

    pages: SSAValue
    table: SSAValue
    axes: tuple[int, ...]


def _pool(value: SSAValue) -> Pool | None:
    """Return the pages of `permute(reshape(gather(pages, table), (B, N * page, H, D)), (0, 2, 1, 3))`."""
    axes: tuple[int, ...] = ()
    if isinstance(op := value.owner, ExpandOp):
        axes, value = tuple(op.axes.get_values()), op.operand
    if not isinstance(op := value.owner, PermuteOp) or tuple(op.order.get_values()) != (0, 2, 1, 3):
        return None
    if not isinstance(op := op.operand.owner, ReshapeOp | RegroupOp):
        return None
    dims = Shaped.of(op.results[0].type).dims
    if not isinstance(op := op.operand.owner, GatherOp) or not isinstance(op.operand, BlockArgument):
        return None
    pages, table = Shaped.of(op.operand.type).dims, Shaped.of(op.rows.type).dims
    if len(pages) != 4 or len(table) != 2 or axes not in ((), (2,)):
        return None
    is_row_major = isinstance(type := op.operand.type, TensorType) and type.layout.is_row_major
    if not is_row_major or not isinstance(pages[1], int) or pages[1] % STEP:
        return None
    fits = dims == (table[0], multiply([table[1], pages[1]]), *pages[2:])
    return Pool(op.operand, op.rows, axes) if fits else None


def _rows(pool: Pool) -> list[Operation]:
    """Return views of all pages as matrices of their rows: `[H, P * page, D]`."""
    pages, page, heads, width = Shaped.of(pool.pages.type).dims
    rows = RegroupOp(pool.pages, (multiply([pages, page]), heads, width))
    new: list[Operation] = [rows, turned := PermuteOp(rows, (1, 0, 2))]
    # There is no axis of sequences, so axes behind that of heads are one less.
    return [*new, ExpandOp(turned, [a - 1 for a in pool.axes])] if pool.axes else new


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
    %r = mu.reshape %g                                  %r = mu.regroup %k
    %k = mu.permute %r order [0, 2, 1, 3]          ->   %p = mu.permute %r order [1, 0, 2]
    %s = mu.scores %q, %k                               %s = mu.scores %q, %p pages %table of 64
    ```
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
        same = same and key.table is value.table and key.axes == value.axes
        sizes = [Shaped.of(pool.pages.type).dims[:3] for pool in (key, value)]
        if not same or sizes[0] != sizes[1]:
            return
        keys = _rows(key)
        values = [] if value.pages is key.pages else _rows(value)
        table = ExpandOp(key.table, list(range(1, len(op.space) - 2)))
        page = sizes[0][1]
        assert isinstance(page, int)
        given = {"key": keys[-1].results[0], "value": (values or keys)[-1].results[0], "pages": table.result}
        # All operations on the scores stand behind the keys.
        rewriter.insert([*keys, *values, table], InsertPoint.before(gathered))
        for inner in (*_same_scores(op), op):
            rewriter.replace(inner, [new := inner.in_pages(given, page)], [new.result])
