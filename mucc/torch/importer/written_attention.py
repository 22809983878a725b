"""Restore attention that PyTorch's decompositions have taken apart, so that kernels recognise it.

Batched products have one axis of batches there, and softmax is an exponential, a sum and a quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import AttentionOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp
from mucc.dialects.rewriting import erase_unused
from mucc.torch.importer.batch_axes import joined_views, split_batches
from mucc.torch.importer.lowering import dims_of
from mucc.torch.importer.safe_attention import attend
from mucc.torch.importer.shared_heads import order_heads, share_heads
from mucc.torch.importer.split_axis import Made, give_up

ROUNDS = 8
"""How often a block is gone through at most: views in views take two or three rounds."""


def restore_attention(block: Block) -> None:
    """Restore softmax and the axes of batches of products, in a block with two products or attention."""
    is_attention = any(isinstance(op, AttentionOp) for op in block.ops)
    if not is_attention and sum(isinstance(op, MatmulOp) for op in block.ops) < 2:
        return
    # Softmax is restored first: what splits batches sees one operation then, and attention their axes.
    for restore in (_softmax, _axes, attend):
        for _ in range(ROUNDS):
            if not _restored(block, restore):
                break


def _restored(block: Block, restore: Callable[[Operation], Made | None]) -> bool:
    """Replace operations once, in order, and erase what nothing reads then. Returns whether any was."""
    found = False
    for op in list(block.ops):
        if op.parent is None:
            continue
        new, value = restore(op) or ((), None)
        if value is None or value.type != op.results[0].type:
            give_up(new)
            continue
        block.insert_ops_before(new, op)
        for each in new:
            each.location = op.location
            each.results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(value)
        erase_unused(op)
        found = True
    return found


def _axes(op: Operation) -> Made | None:
    return joined_views(op) or split_batches(op) or share_heads(op) or order_heads(op)


def _softmax(op: Operation) -> Made | None:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` along the last axis -> `softmax(x)`.

    Where x is scaled, z * f, Inductor writes `where(.., (z - max(z)) * f, x - max(x))` in the exponential.
    """
    if not isinstance(op, e.DivOp) or not isinstance(exponential := op.lhs.owner, e.ExpOp):
        return None
    total, difference = _reduced(op.rhs, "sum"), exponential.operands[0].owner
    stable = None
    if isinstance(difference, e.SelectOp):
        stable, difference = difference.operands[1], difference.operands[2].owner
    if total is not op.lhs or not isinstance(difference, e.SubOp):
        return None
    if _reduced(difference.rhs, "max") is not difference.lhs:
        return None
    if stable is not None and not _same_factors(stable, difference.lhs):
        return None
    softmax = SoftmaxOp(difference.lhs, len(dims_of(op.result)) - 1)
    return [softmax], softmax.results[0]


def _same_factors(one: SSAValue, other: SSAValue) -> bool:
    a, b = _factors(one), _factors(other)
    return math.isclose(a.pop(None), b.pop(None), rel_tol=1e-6) and a == b


Factors = dict[tuple[SSAValue, tuple[int, ...]] | None, float]
"""Factors, with the axes that are inserted to them, and their powers; the constant one is at None."""


def _factors(value: SSAValue) -> Factors:
    """Return the factors of a value, but for what is subtracted from all of a row and squares of signs."""
    found: Factors = {None: 1.0}
    pending: list[tuple[SSAValue, tuple[int, ...], int]] = [(value, (), 1)]
    while pending:
        value, axes, power = pending.pop()
        match op := value.owner:
            case e.CastOp() | BroadcastOp():
                pending.append((op.operands[0], axes, power))
            case ExpandOp() if not axes:
                pending.append((op.operand, tuple(op.axes.get_values()), power))
            case e.MulOp():
                pending += [(v, axes, power) for v in op.operands]
            case e.DivOp():
                pending += [(op.lhs, axes, power), (op.rhs, axes, -power)]
            case e.NegOp():
                found[None] *= -1.0
                pending.append((op.operands[0], axes, power))
            case e.SubOp() if _reduced(op.rhs, "max") is op.lhs:
                pending.append((op.lhs, axes, power))
            case e.ConstantOp() if op.value.value.data:
                found[None] *= op.value.value.data**power
            case _:
                found[value, axes] = found.get((value, axes), 0) + power
    return {key: n for key, n in found.items() if key is None or not (_is_sign(key[0]) and n % 2 == 0)}


def _is_sign(value: SSAValue) -> bool:
    """Whether a value is 1 or -1."""
    if not isinstance(op := value.owner, e.SelectOp):
        return False
    return {_factors(v)[None] for v in op.operands[1:] if set(_factors(v)) == {None}} == {1.0, -1.0}


def _reduced(value: SSAValue, kind: str) -> SSAValue | None:
    """Return what is reduced along its last axis, which is restored with extent 1 or repeated."""
    if isinstance(repeated := value.owner, BroadcastOp):
        value = repeated.operand
    view = value.owner
    if not isinstance(view, ExpandOp) or tuple(view.axes.get_values()) != (len(dims_of(value)) - 1,):
        return None
    value = view.operand
    if not isinstance(op := value.owner, ReduceOp) or op.kind.data.value != kind:
        return None
    last = len(dims_of(op.operand)) - 1
    return op.operand if tuple(op.axes.get_values()) == (last,) else None
