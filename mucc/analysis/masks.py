"""Masks of attention that depend on tensors, whose dead work no bound may count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import BlockArgument, Operation, SSAValue

from mucc.dialects.mu.ops.attention import ScoredAttentionOp, ScoresOp
from mucc.dialects.mu.ops.elementwise import CastOp, ConstantOp, SelectOp
from mucc.dialects.mu.ops.shape import FullOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.walk import postorder


def hides_by_data(op: Operation) -> bool:
    """Whether tensors, such as segment numbers, decide which columns a row of attention sees.

    A row may see one column then. Numbers of a tensor that are added to scores hide nothing.
    """
    if isinstance(op, ScoredAttentionOp):
        return any(_reads(condition) for condition in _conditions(op.scores))
    mask: SSAValue | None = getattr(op, "mask", None)
    if mask is None:
        return False
    if Shaped.of(mask.type).element_type == i1:
        return _reads(mask)
    return any(_reads(condition) for condition in _conditions(mask))


def _conditions(value: SSAValue) -> Iterator[SSAValue]:
    """Yield the conditions of selects between -infinity and something else, of which a value is computed."""
    for op in _made_from(value):
        if isinstance(op, SelectOp) and any(_is_least(v) for v in (op.on_true, op.on_false)):
            yield op.condition


def _is_least(value: SSAValue) -> bool:
    while isinstance(op := value.owner, CastOp):
        value = op.operand
    return isinstance(op, ConstantOp | FullOp) and op.value.value.data == -math.inf


def _made_from(value: SSAValue) -> Iterator[Operation]:
    """Yield the operations that a value is computed by, up to scores."""

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        op = value.owner
        return op.operands if isinstance(op, Operation) and not isinstance(op, ScoresOp) else ()

    for found in postorder(value, operands):
        if isinstance(found.owner, Operation):
            yield found.owner


def _reads(value: SSAValue) -> bool:
    """Whether a value is computed from a parameter."""
    if isinstance(value, BlockArgument):
        return True
    return any(isinstance(v, BlockArgument) for op in _made_from(value) for v in op.operands)
