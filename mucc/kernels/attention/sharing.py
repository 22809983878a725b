"""Bring operations on the same scores together: share equal masks, and move log-sum-exps behind attention."""

from __future__ import annotations

from xdsl.ir import Block, Operation, OpResult, SSAValue

from mucc.dialects.mu.ops.attention import AttentionLogSumExpOp, AttentionOp, GradientOp


def share_masks(block: Block) -> None:
    """Replace masks that are written again by the first one that is computed alike."""
    masks: list[SSAValue] = []
    for op in block.ops:
        if not isinstance(op, AttentionOp | AttentionLogSumExpOp | GradientOp) or (mask := op.mask) is None:
            continue
        if (known := next((m for m in masks if _alike(m, mask)), None)) is None:
            masks.append(mask)
        else:
            op.operands = [known if v is mask else v for v in op.operands]


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
    """Move log-sum-exps behind attention of the same scores, where their readers allow."""
    for op in list(block.ops):
        if not isinstance(op, AttentionLogSumExpOp):
            continue
        attention = [use.operation for use in op.query.uses if _follows(use.operation, op)]
        for other in attention:
            if all(other.is_before_in_block(use.operation) for use in op.result.uses):
                op.detach()
                block.insert_op_after(op, other)
                break


def _follows(op: Operation, sums: AttentionLogSumExpOp) -> bool:
    same = isinstance(op, AttentionOp) and sums.is_of(op)
    return same and op.parent_block() is sums.parent_block() and sums.is_before_in_block(op)
