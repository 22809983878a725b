"""Prepare convolutions: zeros around x are never stored, and channels are last where they are read so."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.by_name import is_convolution
from mucc.dialects.mu.ops.elementwise import RetypeOp
from mucc.dialects.mu.ops.views import AXIS_VIEWS, IndexMapOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.channel_moves import MoveChannels, MoveConcatenations
from mucc.kernels.channels import ChannelsLast
from mucc.kernels.conv.merge import Merge
from mucc.target import DEFAULT_TARGET, get_target


class _Keep(ChannelsLast):
    """`permute(conv(x, w), (0, 2, 3, 1))` -> `conv(x, w) channels_last`."""

    def applies(self, op: Operation) -> bool:
        return is_convolution(op)


class _Place(RewritePattern):
    """`conv(pad(x, 0, (0, 2)), w)` -> `conv(place(x, axis=3), w)`: no elements are zeros to a convolution.

    A computed x is stored: it is not computed of the zeros around what it is computed from.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not is_convolution(op):
            return
        from mucc.dialects.mu.ops.placed import PlaceOp
        from mucc.dialects.mu.ops.shape import Padding, PadOp

        if not isinstance(pad := op.operand.owner, PadOp):
            return
        if pad.mode.data is not Padding.CONSTANT or pad.value.value.data != 0:
            return
        low, high = pad.low.get_values(), pad.high.get_values()
        if any((*low[:2], *high[:2])) or isinstance(pad.operand.owner, IndexMapOp):
            return
        x, whole = pad.operand, Shaped.of(pad.result.type).dims
        if _is_computed(x):
            rewriter.insert(stored := RetypeOp(x, Shaped.of(x.type).element_type))
            x = stored.result
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            if before or after:
                rewriter.insert(placed := PlaceOp(x, axis, before, whole[axis]))
                x = placed.result
        op.operands[0] = x
        rewriter.handle_operation_modification(op)
        if not pad.result.uses:
            rewriter.erase(pad)


def _is_computed(value: SSAValue) -> bool:
    """Whether a value is anything but a parameter, or its elements in another order."""
    while isinstance(view := value.owner, AXIS_VIEWS):
        value = view.operand
    return isinstance(value.owner, Operation)


@dataclass(frozen=True)
class PrepareConvolutions(Pass):
    """Let convolutions read padded tensors where they lie, and have results in the order that is read; merge
    groups of few channels where that should be faster.

    ```
    %0 = mu.conv %x, %w : [N, O, P, Q]
    %1 = mu.permute %0 order [0, 2, 3, 1]      ->      %1 = mu.conv %x, %w channels_last : [N, P, Q, O]

    %1 = mu.relu %0                                    %1 = mu.conv %x, %w channels_last : [N, P, Q, O]
    %2 = mu.permute %1 order [0, 2, 3, 1]      ->      %2 = mu.relu %1

    %1 = mu.concat %0, %y axis 1               ->      %2 = mu.permute %y order [0, 2, 3, 1]
    %2 = mu.permute %1 order [0, 2, 3, 1]              %3 = mu.concat %1, %2 axis 3

    %0 = mu.pad %x low [0, 0, 0, 1]
    %1 = mu.conv %0, %w                        ->      %0 = mu.place %x axis 3 at 1
                                                       %1 = mu.conv %0, %w
    ```
    """

    name = "prepare-convolutions"
    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        moves = [MoveConcatenations(is_convolution), MoveChannels(is_convolution)]
        rewrite(op, [_Place(), *moves, _Keep(), Merge(get_target(self.target).facts)])
