"""Order log-sum-exps behind the attention whose kernel stores them."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from mucc.dialects.mu.ops.attention import AttentionLogSumExpOp, AttentionOp


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
