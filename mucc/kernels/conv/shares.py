"""Convolutions with few results and long sums as convolutions with groups, whose results are added up."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.conv import ConvOp
from mucc.dialects.mu.ops.elementwise import CastOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import PadOp, PermuteOp, ReshapeOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.kernels.conv.layer import geometry_of, layer_of
from mucc.kernels.conv.positions import is_gradient
from mucc.kernels.conv.strategies import Positions
from mucc.target.facts import Facts

SHARES = 64
"""The most parts of the channels whose sums are added up at the end."""


def has_another_batch(x: SSAValue) -> bool:
    """Whether the batch of an operand is another axis of the tensor that it views, as in gradients."""
    while isinstance(op := x.owner, PadOp | ReshapeOp | PermuteOp):
        if isinstance(op, PermuteOp) and op.order.get_values()[0] != 0:
            return True
        x = op.operand
    return False


def may_be_gradient(op: ConvOp) -> bool:
    """Whether a convolution may be that of a gradient of weights: of fixed extents, with another batch."""
    if op.channels_last is not None or not has_another_batch(op.operand):
        return False
    return all(isinstance(d, int) for v in (*op.operands, op.result) for d in Shaped.of(v.type).dims)


class KeepOutputsLast(RewritePattern):
    """`permute(conv(x, w), (1, 0, 2, 3))` -> `permute(conv(x, w) channels_last, (3, 0, 1, 2))`.

    The kernel of `positions` has neighbouring channels of the result: stored as neighbours they are whole
    vectors, and what moves axes reads and writes whole ones too.
    """

    def __init__(self, facts: Facts):
        self._facts = facts

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, PermuteOp) or not isinstance(conv := op.operand.owner, ConvOp):
            return
        order = tuple(op.order.get_values())
        if conv.channels_last is not None or order[-1] == 1 or len(list(conv.result.uses)) != 1:
            return
        layer = layer_of(conv, geometry_of(conv))
        if Positions().refused(layer, self._facts) is not None:
            return
        batch, outputs, *places = (int(d) for d in conv.result_dims)
        new = ConvOp.create(
            operands=conv.operands,
            result_types=[TensorType.of((batch, *places, outputs), Shaped.of(conv.result.type).element_type)],
            properties={**conv.properties, "channels_last": UnitAttr()},
        )
        new.location = conv.location
        rewriter.insert(new)
        last = len(order) - 1
        moved = PermuteOp(new.results[0], [0 if a == 0 else last if a == 1 else a - 1 for a in order])
        moved.location = op.location
        rewriter.replace(op, [moved], [moved.result])
        rewriter.erase(conv)


class Divide(RewritePattern):
    """`conv(x, w)` -> `sum(conv(x, v, groups=n))`, where v has the channels of w in n parts.

    x has channels of a training step as its batch.
    """

    def __init__(self, facts: Facts):
        self._facts = facts

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ConvOp) or not may_be_gradient(op):
            return
        x, w, result = (Shaped.of(v.type) for v in (op.operand, op.weight, op.result))
        layer = layer_of(op, geometry_of(op))
        channels = layer.channels
        if channels == 1 or not is_gradient(layer) or Positions().refused(layer, self._facts) is None:
            return
        shares = max(n for n in range(1, min(channels, SHARES) + 1) if channels % n == 0)

        def add(new: Operation) -> SSAValue:
            new.location = op.location
            rewriter.insert(new)
            return new.results[0]

        groups, outputs, each = layer.groups, layer.outputs, channels // shares
        window, places = [int(d) for d in w.dims[2:]], [int(d) for d in result.dims[2:]]
        parts = add(ReshapeOp(op.weight, (groups, outputs, shares, each, *window)))
        parts = add(PermuteOp(parts, (0, 2, 1, 3, *range(4, len(window) + 4))))
        parts = add(ReshapeOp(parts, (groups * shares * outputs, each, *window)))
        stride, pad, dilation = (tuple(n.get_values()) for n in (op.stride, op.pad, op.dilation))
        sums = add(ConvOp(op.operand, parts, stride, pad, dilation, groups * shares, op.compute))
        batch, taken = int(x.dims[0]), outputs * math.prod(places)
        wide = add(CastOp(add(ReshapeOp(sums, (batch, groups, shares, taken))), f32))
        whole = add(ReshapeOp(add(ReduceOp("sum", wide, [2])), (batch, groups * outputs, *places)))
        if result.element_type != f32:
            whole = add(CastOp(whole, result.element_type))
        rewriter.replace(op, [], [whole])
