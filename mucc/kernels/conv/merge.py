"""Merge groups of few channels into dense convolutions, with zeros, which wgmma computes faster."""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.base import integer
from mucc.dialects.mu.ops.by_name import is_convolution
from mucc.dialects.mu.ops.conv import ConvolutionOp, ConvTransposeOp
from mucc.dialects.mu.ops.conversions import CastOp
from mucc.dialects.mu.ops.elementwise import CmpOp, FloorDivideOp, RemainderOp, SelectOp
from mucc.dialects.mu.ops.pointwise import ConstantOp
from mucc.dialects.mu.ops.shape import IotaOp, PermuteOp, ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.conv.layer import Layer, geometry_of, layer_of
from mucc.kernels.conv.strategies import WAYS, Planes, Warpgroups, fastest
from mucc.kernels.conv.tiles import STAGE_ROW
from mucc.target.facts import Facts

GAIN = 0.7
"""What the merged layer may take of the time of the other one, as both are estimates."""


def merged_groups(layer: Layer, facts: Facts) -> int:
    """Return how many groups are best computed as one: 1 where none are to be merged."""
    row = STAGE_ROW // layer.element_bytes
    if layer.groups == 1 or not layer.channels_known or layer.channels < 2:
        return 1
    count = row // math.gcd(row, layer.channels)
    if count == 1 or layer.groups % count:
        return 1
    merged = layer._replace(
        channels=layer.channels * count,
        outputs=layer.outputs * count,
        groups=layer.groups // count,
        whole=True,
    )
    wide = [way for way in (Warpgroups(), Planes()) if way.refused(merged, facts) is None]
    if not wide:
        return 1
    return count if fastest(wide, merged, facts)[1] < GAIN * fastest(WAYS, layer, facts)[1] else 1


class Merge(RewritePattern):
    """`conv(x, w, groups=32)` -> `conv(x, v, groups=4)`, where v has zeros between the groups that it merges.

    Of weights `[G*a, b, window]` v has `[G*a, m*b, window]`: those of w in the columns of their group.
    """

    def __init__(self, facts: Facts):
        self._facts = facts

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not is_convolution(op):
            return
        assert isinstance(op, ConvolutionOp)
        groups, x = op.groups.value.data, Shaped.of(op.operand.type)
        weights = Shaped.of(op.weight.type).dims
        if groups == 1 or not all(isinstance(d, int) for d in (x.dims[1], *weights)):
            return
        layer = layer_of(op, geometry_of(op))
        if _has_channels_last(op.operand):
            layer = layer._replace(copied=0, vectors=False)
        if (count := merged_groups(layer, self._facts)) == 1:
            return
        op.operands[1] = self._weights(op, groups, count, rewriter)
        op.properties["groups"] = integer(groups // count)
        rewriter.handle_operation_modification(op)

    def _weights(self, op: ConvolutionOp, groups: int, count: int, rewriter: PatternRewriter) -> SSAValue:
        def add(new: Operation) -> SSAValue:
            new.location = op.location
            rewriter.insert(new)
            return new.results[0]

        rows, columns, *window = (int(d) for d in Shaped.of(op.weight.type).dims)
        spatial = list(range(2, len(window) + 2))
        # The channels of x, which the products add up, are to be adjacent.
        if isinstance(op, ConvTransposeOp):
            order, back, own, slot = (1, *spatial, 0), (-1, 0, *(a - 1 for a in spatial)), len(window) + 2, 0
            whole, shape = (count, columns, *window, rows), (count * columns, *window, rows)
        else:
            order, back, own, slot = (0, *spatial, 1), (0, -1, *(a - 1 for a in spatial)), 0, len(window) + 1
            whole, shape = (rows, *window, count, columns), (rows, *window, count * columns)
        value = add(ExpandOp(add(PermuteOp(op.weight, order)), [slot]))
        value = add(BroadcastOp(value, whole))
        group = add(FloorDivideOp(add(IotaOp(whole, own)), add(ConstantOp(float(rows // groups)))))
        group = add(RemainderOp(group, add(ConstantOp(float(count)))))
        same = add(CmpOp("eq", group, add(IotaOp(whole, slot))))
        value = add(SelectOp(same, value, add(ConstantOp(0.0))))
        value = add(CastOp(value, Shaped.of(op.weight.type).element_type))
        return add(PermuteOp(add(ReshapeOp(value, shape)), back))


def _has_channels_last(x: SSAValue) -> bool:
    """Whether the program has x with its channels as the last axis."""
    if not isinstance(permute := x.owner, PermuteOp):
        return False
    order = permute.order.get_values()
    return order[1] == len(order) - 1
