"""Reductions over the channels of a convolution's result, in the kernel that has them in flight."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_convolution
from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.conv.windows import pooled_dims
from mucc.kernels.interface import Answer, FormingStage, Joins, Refused
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.normalize.placing import placed_in, places_in, reduces
from mucc.kernels.traffic import Traffic

MOST = 128
"""The most channels that a tile of every strategy with tiles can have, and a block reduces."""

REDUCTIONS = (Reduction.SUM, Reduction.MAX, Reduction.MIN, Reduction.AMAX)


def channel_axis(op: ConvolutionOp) -> int:
    """Return the axis of a convolution's result that counts channels."""
    return 1 if op.channels_last is None else len(op.space) - 1


def takes(stage: FormingStage, op: AnchorOp) -> Answer:
    """Say whether the kernel of a convolution reduces the channels that it has in flight.

    That saves that a kernel of its own reads the operand.
    """
    anchor = stage.anchor
    assert is_convolution(anchor)
    if not isinstance(op, ReduceOp):
        return Refused(f"the kernel of a convolution takes no {op.stage}")
    if op.kind.data not in REDUCTIONS:
        return Refused(f"the kernel of a convolution has no {op.kind.data}")
    if Shaped.of(op.result.type).element_type == S32:
        return Refused("the kernel of a convolution does not reduce integers")
    axis = channel_axis(anchor)
    fills = stage.axes[op.operand] == identity(stage.space)
    if not reduces(op, stage.space, (axis,)) or not fills or pooled_dims(stage) is not None:
        return Refused("the kernel of a convolution reduces along all channels of a position only")
    outputs = stage.space[axis]
    if not isinstance(outputs, int) or not 1 < outputs <= MOST or anchor.groups.value.data > 1:
        return Refused(f"a tile has all channels of a position only if they are 2 to {MOST} of one group")
    return Joins(Traffic.of(op.operand.type))


def placed(stage: FormingStage, op: Operation) -> Axes | None:
    """Return where the result of an operation lies in the space of a convolution that reduces channels."""
    assert is_convolution(stage.anchor)
    return placed_in(op, stage.space, (channel_axis(stage.anchor),), stage.axes)


def places(stage: StageOp) -> dict[SSAValue, Axes]:
    """Return the axes of the space of each value in flight in a stage around a convolution, in order."""
    anchor = stage.anchor
    assert is_convolution(anchor)
    known: dict[SSAValue, Axes] = {anchor.results[0]: identity(stage.space)}
    return places_in(stage, stage.space, (channel_axis(anchor),), known)


def is_reduced(stage: StageOp) -> bool:
    """Whether a stage around a convolution reduces its channels."""
    return any(isinstance(op, ReduceOp) for op in stage.body.block.ops)
