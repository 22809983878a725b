"""What passes share that move the work of a kernel into the one before it."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, StoreNode, YieldOp
from mucc.dialects.cutlass.ops import WorkspaceOp
from mucc.dialects.mu.ops.conversions import CastOp
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.types import Shaped


def drop_unused(values: Iterable[SSAValue]) -> None:
    """Erase tensors of the workspace, and views of them, that nothing uses; views come first."""
    pending = list(dict.fromkeys(values))
    while pending:
        value = pending.pop(0)
        if not isinstance(owner := value.owner, RegroupOp | WorkspaceOp):
            continue
        if owner.parent is not None and value.first_use is None:
            pending += owner.operands
            owner.detach()
            owner.erase()


def as_rounded(store: StoreNode, block: Block) -> SSAValue:
    """Append what is left of a store whose destination nothing reads any more: the program's own rounding."""
    if not store.rounds:
        return store.value
    body = Block(arg_types=[f32])
    body.add_op(narrow := CastOp(body.args[0], Shaped.of(store.destination.type).element_type))
    body.add_op(wide := CastOp(narrow.result, f32))
    body.add_op(YieldOp(wide.result))
    block.add_op(rounded := ComputeOp([store.value], Region(body)))
    for op in (narrow, wide, rounded):
        op.location = store.location
    return rounded.result
