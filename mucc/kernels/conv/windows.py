"""Pools of a convolution's result, in the kernel that has all positions of their windows in flight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_convolution, is_pool
from mucc.dialects.mu.ops.conv import ConvolutionOp, ConvTransposeOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, Shaped, dtype_bytes
from mucc.kernels.interface import Answer, FormingStage, Joins, Refused
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.traffic import Traffic

if TYPE_CHECKING:
    from mucc.dialects.mu.ops.pooling import PoolOp

MOST = 64
"""The most positions of a window: half of those of the smallest tile."""


def takes(stage: FormingStage, op: PoolOp) -> Answer:
    """Say whether the kernel of a convolution pools the positions that it has in flight.

    That saves that its result is stored and read. Tiles have whole windows that begin where others end.
    """
    anchor = stage.anchor
    assert is_convolution(anchor)
    if (reason := refusal(anchor, op)) is not None:
        return Refused(reason)
    if stage.axes[op.operand] != identity(stage.space) or stage.stored or not _is_only_pooled(stage, op):
        return Refused("what is pooled is also stored, reduced or read by others")
    return Joins(Traffic.of(op.operand.type) * 2)


def refusal(anchor: ConvolutionOp, op: PoolOp) -> str | None:
    """Say why the kernel of a convolution cannot pool such windows of its result; None if it can."""
    if anchor.channels_last is not None or op.channels_last is not None:
        return "the kernel of a convolution pools positions of results with channels first only"
    if op.ceil is not None or op.divides_by is not None:
        return "the kernel of a convolution pools whole windows only"
    sizes = [w.size for w in op.windows]
    if any((w.stride, w.pad, w.dilation) != (w.size, 0, 1) for w in op.windows):
        return "the kernel of a convolution pools windows that neither overlap nor are padded only"
    volume = math.prod(sizes)
    if not 1 < volume <= MOST or any(size & (size - 1) for size in sizes):
        return f"the kernel of a convolution pools powers of two, up to {MOST} positions, only"
    strided = isinstance(anchor, ConvTransposeOp) and any(s > 1 for s in anchor.stride.get_values())
    if strided and not _has_patches(anchor, sizes):
        return "several blocks compute neighbours of this transposed convolution"
    if _is_depthwise(anchor):
        return "threads that sum up one channel have no windows, and are faster than blocks that have them"
    if _wants_warpgroups(anchor):
        return "warpgroups multiply so many channels, and have positions in no order of windows"
    return None


FEW = 16
"""Channels of a group from which on warpgroups save more time than a pool in the kernel does."""


def _wants_warpgroups(op: ConvolutionOp) -> bool:
    """Whether a convolution is best multiplied by warpgroups that have positions in the order of memory."""
    x = Shaped.of(op.operand.type)
    channels, line = x.dims[1], x.dims[-1]
    if op.compute.data.value in ("tf32x3", "f32"):
        return False
    has_planes = dtype_bytes(x.element_type) == 4 and isinstance(line, int) and line % 4 == 0
    return not has_planes and not (isinstance(channels, int) and channels // op.groups.value.data < FEW)


def _is_depthwise(op: ConvolutionOp) -> bool:
    """Whether each channel is a convolution of its own, which `direct` computes at the speed of a copy.

    With a pool the other strategies should take 2 to 50 times as long as that and a kernel that pools.
    """
    channels, groups = Shaped.of(op.operand.type).dims[1], op.groups.value.data
    return not isinstance(op, ConvTransposeOp) and channels == op.result_dims[1] == groups > 1


def _has_patches(op: ConvolutionOp, sizes: Sequence[int]) -> bool:
    """Whether blocks that compute all classes of outputs have whole windows, on every target."""
    from mucc.kernels.conv.layer import geometry_of, layer_of
    from mucc.kernels.conv.strategies import Patches
    from mucc.target import TARGETS, get_target

    layer = layer_of(op, geometry_of(op))._replace(pooled=tuple(sizes))
    refusals = (Patches().refused(layer, get_target(name).facts) for name in TARGETS)
    return layer.channels <= FEW and all(refusal is None for refusal in refusals)


def _is_only_pooled(stage: FormingStage, op: PoolOp) -> bool:
    """Whether all values in flight are computed from or pooled, and nothing else reads them."""
    known = {value.owner for value in stage.axes} | {op}
    dims = {Shaped.of(value.type).dims for value in stage.axes}
    return dims == {stage.space} and all(use.operation in known for v in stage.axes for use in v.uses)


def pooled_dims(stage: FormingStage) -> Dims | None:
    """Return the extents of pooled values in flight; None where there are none."""
    pooled = (v for v in stage.axes if isinstance(v.owner, Operation) and is_pool(v.owner))
    return next((Shaped.of(value.type).dims for value in pooled), None)


def placed(stage: FormingStage, op: Operation) -> Axes | None:
    """Return where the result of an operation on pooled values lies; None where it takes others in flight."""
    dims = Shaped.of(op.results[0].type).dims
    if isinstance(op, AnchorOp):
        return identity(dims)
    # A view of a square may have its extents, but has other elements there.
    in_flight: list[SSAValue] = [v for v in op.operands if v in stage.axes]
    fits = bool(in_flight) and all(Shaped.of(v.type).dims == dims for v in in_flight)
    return identity(dims) if fits and isinstance(op, ElementwiseOp) else None


def pooled_sizes(stage: StageOp) -> tuple[int, ...]:
    """Return the positions of a pool's window along each spatial axis; none where a stage pools nothing."""
    pools = (op for op in stage.body.block.ops if is_pool(op))
    return next((tuple(w.size for w in op.windows) for op in pools), ())
