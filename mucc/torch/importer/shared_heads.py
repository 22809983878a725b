"""Read heads that attention repeats, as `repeat_kv` of transformers does, where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import AttentionOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.shape import ReshapeOp, SliceOp
from mucc.dialects.mu.ops.views import BroadcastOp, PermuteOp
from mucc.dialects.mu.types import Dim, Dims
from mucc.library.extents import multiply
from mucc.torch.importer.lowering import dims_of
from mucc.torch.importer.split_axis import Made, Split, is_only_use, made

HEADS = -3
"""The axis of heads of a product."""


def share_heads(op: Operation) -> Made | None:
    """Split the heads of a product whose values are repeated, and of what its weights are computed of.

    ```
    softmax(q @ reshape(broadcast(k, (B, H, G, T, D)), (B, H*G, T, D)).T) @ reshape(broadcast(v, ..), ..)
        -> reshape(softmax(reshape(q, (B, H, G, S, D)) @ k.T) @ v, (B, H*G, S, D))
    ```
    """
    if not isinstance(op, MatmulOp) or not op.has_plain_operands:
        return None
    dims = dims_of(op.result)
    if len(dims) < 3 or len(dims_of(op.lhs)) != len(dims) or not _is_alone(op.lhs):
        return None
    if (heads := _repeated_heads(op.rhs)) is None:
        return None
    return Split(heads, dims, len(dims) + HEADS).merged(op.result)


def _repeated_heads(value: SSAValue) -> Dims | None:
    """Return the number of heads, and how often each is repeated, of values that repeat heads."""
    if not isinstance(merge := value.owner, ReshapeOp) or not isinstance(
        repeat := merge.operand.owner, BroadcastOp
    ):
        return None
    narrow, wide, merged = (dims_of(v) for v in (repeat.operand, repeat.result, value))
    axis = len(wide) + HEADS
    if axis < 1 or len(narrow) != len(wide) or len(merged) != len(wide) - 1 or narrow[axis] != 1:
        return None
    is_merged = merged[: axis - 1] == wide[: axis - 1] and merged[axis:] == wide[axis + 1 :]
    return wide[axis - 1 : axis + 1] if is_merged and wide[axis] != 1 else None


def _is_alone(weights: SSAValue) -> bool:
    """Whether only one product reads weights, from their softmax on: they would be computed twice."""
    while is_only_use(weights):
        op = weights.owner
        if not isinstance(op, e.CastOp | SliceOp | SoftmaxOp):
            return True
        weights = op.operand
    return False


def order_heads(op: Operation) -> Made | None:
    """Permute what attention reads after its heads are split, and what it returns before they are merged.

    Then neither is a copy.

    ```
    reshape(permute(q, (0, 2, 1, 3)), (B, H, G, S, D)) @ k
        -> permute(reshape(q, (B, S, H, G, D)), (0, 2, 3, 1, 4)) @ k
    permute(reshape(w @ v, (B, H*G, S, D)), (0, 2, 1, 3))
        -> reshape(permute(w @ v, (0, 3, 1, 2, 4)), (B, S, H*G, D))
    ```
    """
    if isinstance(op, ReshapeOp) and isinstance(view := op.operand.owner, PermuteOp):
        if not any(isinstance(use.operation, MatmulOp | AttentionOp) for use in op.result.uses):
            return None
        order = view.order.get_values()
        if (parts := _parts(dims_of(op.operand), dims_of(op.result))) is None:
            return None
        whole = [parts[order.index(axis)] for axis in range(len(order))]
        split = ReshapeOp(view.operand, tuple(extent for part in whole for extent in part))
        return made(split, PermuteOp(split.result, _order_of_parts(whole, order)))
    if isinstance(op, PermuteOp) and isinstance(view := op.operand.owner, ReshapeOp):
        if not isinstance(view.operand.owner, MatmulOp | AttentionOp):
            return None
        if (parts := _parts(dims_of(view.result), dims_of(view.operand))) is None:
            return None
        turned = PermuteOp(view.operand, _order_of_parts(parts, op.order.get_values()))
        return made(turned, ReshapeOp(turned.results[0], dims_of(op.results[0])))
    return None


def _parts(whole: Dims, fine: Dims) -> list[Dims] | None:
    """Return the axes that each axis is split to; None where they are not split."""
    parts: list[Dims] = []
    left = list(fine)
    for extent in whole:
        part: list[Dim] = []
        while left and (not part or multiply(part) != extent):
            part.append(left.pop(0))
        if multiply(part) != extent:
            return None
        parts.append(tuple(part))
    return None if left or len(whole) == len(fine) else parts


def _order_of_parts(parts: Sequence[Dims], order: Sequence[int]) -> list[int]:
    """Return the order of all parts of axes that are permuted."""
    first = [sum(len(part) for part in parts[:axis]) for axis in range(len(parts))]
    return [first[axis] + n for axis in order for n in range(len(parts[axis]))]
