"""Bring operations on the same scores together: equal operands and products, log-sum-exps and attention."""

from __future__ import annotations

from xdsl.ir import Block, Operation, OpResult, SSAValue

from mucc.dialects.mu.ops.attention import AttentionLogSumExpOp, AttentionOp, GradientOp
from mucc.dialects.mu.ops.contraction import MatmulOp


def share_operands(block: Block) -> None:
    """Replace operands of attention that are written again by the first ones that are computed alike."""
    values: list[SSAValue] = []
    for op in block.ops:
        if not isinstance(op, AttentionOp | AttentionLogSumExpOp | GradientOp):
            continue
        for i, value in enumerate(op.operands):
            if (known := next((v for v in values if _alike(v, value)), None)) is None:
                values.append(value)
            else:
                op.operands[i] = known


def share_products(block: Block) -> None:
    """Replace products that are written again by the first one that is computed alike."""
    products: list[MatmulOp] = []
    for op in block.ops:
        if not isinstance(op, MatmulOp):
            continue
        if (known := next((p for p in products if _alike(p.result, op.result)), None)) is None:
            products.append(op)
        else:
            op.result.replace_all_uses_with(known.result)


def _alike(one: SSAValue, other: SSAValue) -> bool:
    """Whether two values are computed by the same operations from the same values."""
    pending, seen = [(one, other)], set[tuple[SSAValue, SSAValue]]()
    while pending:
        a, b = pair = pending.pop()
        if a is b or pair in seen:
            continue
        seen.add(pair)
        if not isinstance(a, OpResult) or not isinstance(b, OpResult):
            return False
        first, second = a.op, b.op
        same = type(first) is type(second) and a.type == b.type and a.index == b.index
        same = same and first.properties == second.properties and first.attributes == second.attributes
        if not same or first.regions or len(first.operands) != len(second.operands):
            return False
        pending += zip(first.operands, second.operands, strict=True)
    return True


def move_sums(block: Block) -> None:
    """Move log-sum-exps behind attention of the same scores, or attention before what reads them."""
    for op in list(block.ops):
        if not isinstance(op, AttentionLogSumExpOp):
            continue
        attention = [use.operation for use in op.query.uses if _follows(use.operation, op)]
        for other in attention:
            if all(other.is_before_in_block(use.operation) for use in op.result.uses):
                op.detach()
                block.insert_op_after(op, other)
                break
            if needed := _needed(other, op):
                for moved in needed:
                    moved.detach()
                    block.insert_op_before(moved, op)
                break


def _needed(attention: Operation, sums: AttentionLogSumExpOp) -> list[Operation]:
    """Return attention, behind what it depends on of the operations behind log-sum-exps; none if on these."""
    needed, op = [attention], attention.prev_op
    while op is not None and op is not sums:
        if any(use.operation in needed for result in op.results for use in result.uses):
            needed.insert(0, op)
        op = op.prev_op
    return [] if any(use.operation in needed for use in sums.result.uses) else needed


def _follows(op: Operation, sums: AttentionLogSumExpOp) -> bool:
    same = isinstance(op, AttentionOp) and sums.is_of(op)
    return same and op.parent_block() is sums.parent_block() and sums.is_before_in_block(op)
