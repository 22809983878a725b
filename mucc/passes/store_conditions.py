"""Let views of bools that read memory read numbers instead: no tensor in memory holds bools."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.views import IndexMapOp, RegroupOp
from mucc.dialects.mu.types import DTYPES, Shaped, TensorType
from mucc.dialects.rewriting import Emit, Pass, rewrite


class StoreConditions(Pass):
    """Store a condition that is read with other extents, or in another order, as 0 and 1.

    ```
                                                 %n = mu.cast %c : [M, N] of bools -> u8
    %v = mu.regroup %c : bools           ->      %r = mu.regroup %n : u8
                                                 %v = mu.cmp ne %r, 0
    ```

    Other bools are computed anew where they are used.
    """

    name = "store-conditions"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        if any(_is_stored(inner) for inner in op.walk()):
            rewrite(op, [_Numbers()])


class _Numbers(RewritePattern):
    """`view(condition)` -> `view(cast(condition, u8)) != 0`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, RegroupOp | IndexMapOp) or not _is_stored(op):
            return
        b, u8 = Emit(), DTYPES["u8"]
        numbers = [_numbers(b, op.operands[0]), *op.operands[1:]]
        type = TensorType.of(Shaped.of(op.results[0].type).dims, u8)
        view = op.__class__.create(operands=numbers, result_types=[type], properties=dict(op.properties))
        condition = b(e.CmpOp("ne", b(view), b.number(0.0)))
        rewriter.replace(op, b.ops, [condition])


def _is_stored(op: Operation) -> bool:
    return isinstance(op, RegroupOp | IndexMapOp) and Shaped.of(op.results[0].type).element_type == i1


def _numbers(b: Emit, condition: SSAValue) -> SSAValue:
    """Return the numbers that a condition is read from in memory, or append a cast to 0 and 1."""
    if isinstance(cmp := condition.owner, e.CmpOp) and isinstance(cmp.lhs.owner, RegroupOp | IndexMapOp):
        is_zero = isinstance(number := cmp.rhs.owner, e.ConstantOp) and number.value.value.data == 0
        is_view_of_bools = isinstance(cast := cmp.lhs.owner.operands[0].owner, e.CastOp) and (
            Shaped.of(cast.operand.type).element_type == i1
        )
        if cmp.relation.data is e.Relation.NE and is_zero and is_view_of_bools:
            return cmp.lhs
    return b(e.CastOp(condition, DTYPES["u8"]))
