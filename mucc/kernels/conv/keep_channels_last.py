"""Convolutions whose results are read with channels last only have such results."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.views import VIEWS, PermuteOp, TransposeOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.rewriting import Pass, rewrite


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


class _Keep(RewritePattern):
    """`permute(conv(x, w), (0, 2, 3, 1))` -> `conv(x, w) channels_last`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ConvolutionOp) or op.channels_last is not None:
            return
        users = [use.operation for use in op.result.uses]
        batch, outputs, *places = op.result.type.dims
        wanted = TensorType.of((batch, *places, outputs), op.result.type.element_type)
        if not users or not all(_moves_channels(user) and _becomes(user, wanted) for user in users):
            return
        new = type(op).create(
            operands=op.operands,
            result_types=[wanted],
            properties={**op.properties, "channels_last": UnitAttr()},
        )
        rewriter.insert(new)
        for user in users:
            rewriter.replace(user, [], new.results)
        rewriter.erase(op)


@dataclass(frozen=True)
class KeepChannelsLast(Pass):
    """Let convolutions have results with channels last, where nothing reads them in another order.

    ```
    %0 = mu.conv %x, %w : [N, O, P, Q]
    %1 = mu.permute %0 order [0, 2, 3, 1]      ->      %1 = mu.conv %x, %w channels_last : [N, P, Q, O]
    ```
    """

    name = "keep-channels-last"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = (kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp))
        if any(isinstance(inner, ConvolutionOp) for kernel in kernels for inner in kernel.body.block.ops):
            rewrite(op, [_Keep()])
