"""Compute operations with channels last where their results are read so."""

from __future__ import annotations

from abc import abstractmethod

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.views import VIEWS, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Shaped, TensorType


class ChannelsLast(RewritePattern):
    """`permute(f(x), (0, 2, 3, 1))` -> `f(x) channels_last`, if all who read f(x) read it so."""

    @abstractmethod
    def applies(self, op: Operation) -> bool:
        """Whether an operation with results `[N, C, ...]` has a property `channels_last`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not self.applies(op) or "channels_last" in op.properties:
            return
        (result,) = op.results
        users = [use.operation for use in result.uses]
        shaped = Shaped.of(result.type)
        batch, channels, *places = shaped.dims
        wanted = TensorType.of((batch, *places, channels), shaped.element_type)
        if not users or not all(_moves_channels(user) and _becomes(user, wanted) for user in users):
            return
        new = type(op).create(
            operands=op.operands,
            result_types=[wanted],
            properties={**op.properties, "channels_last": UnitAttr()},
        )
        new.location = op.location
        rewriter.insert(new)
        for user in users:
            rewriter.replace(user, [], new.results)
        rewriter.erase(op)


def _moves_channels(op: Operation) -> bool:
    """Whether an operation puts the second axis last, and leaves the others in order."""
    if isinstance(op, TransposeOp):
        return len(Shaped.of(op.operand.type).dims) == 3
    if not isinstance(op, PermuteOp):
        return False
    order = tuple(op.order.get_values())
    return order == (0, *range(2, len(order)), 1)


def _becomes(op: Operation, wanted: TensorType) -> bool:
    """Whether users of a view can have a tensor of another type: further views may follow its layout."""
    (result,) = op.results
    return result.type == wanted or not any(isinstance(use.operation, VIEWS) for use in result.uses)
