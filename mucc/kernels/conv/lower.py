"""Lower stages to convolution kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Region, SSAValue
from xdsl.rewriter import Rewriter

from mucc.dialects.cutlass.nodes import StoreOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_convolution, is_pool
from mucc.dialects.mu.ops.conv import ConvolutionOp, PartialMomentsOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import SliceOp
from mucc.dialects.mu.ops.stage import StageOp, YieldOp, before_regrouping
from mucc.dialects.mu.ops.views import IndexMapOp
from mucc.dialects.mu.types import Dims, Shaped, dtype_bytes
from mucc.kernels.conv.channels import channel_axis, is_reduced, places
from mucc.kernels.conv.layer import geometry_of, layer_of
from mucc.kernels.conv.op import (
    ConvKernelOp,
    ConvolvedOp,
    Geometry,
    PooledSumsOp,
    StoreMomentsOp,
    Strategy,
)
from mucc.kernels.conv.strategies import choose
from mucc.kernels.conv.strips import best_strip
from mucc.kernels.conv.windows import pooled_sizes
from mucc.kernels.lowering.access import Access, Axes, identity, in_memory, through_views
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder, build_view
from mucc.kernels.map.copies import copy
from mucc.kernels.normalize.lower import store_along
from mucc.kernels.normalize.op import RowReduceOp
from mucc.target import get_target
from mucc.target.facts import WIDEST_ACCESS, Facts


class ConvBody(Body):
    """The nodes of a convolution kernel, which has the outputs in flight, and what they are reduced to."""

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        if isinstance(op, ReduceOp):
            value = self.scalar(op.operand, identity(self.stage.space))
            self.add(reduced := RowReduceOp(op.kind, value), op)
            return reduced.result
        if is_pool(op):
            value = self.scalar(op.operand, identity(self.stage.space))
            self.add(pooled := PooledSumsOp(op.kind.data, value, [w.size for w in op.windows]), op)
            return pooled.result
        node = ConvolvedOp()
        self.add(node, op)
        return node.result

    def store_measured(self) -> None:
        """Append stores of the stage's results, of which one are moments of a value."""
        last = self.stage.body.block.last_op
        assert isinstance(last, YieldOp)
        for result, value in zip(self.stage.outputs, last.values, strict=True):
            moments = value.owner if isinstance(value.owner, PartialMomentsOp) else None
            root = before_regrouping(value) if moments is None else moments.operand
            number = self.scalar(root, identity(self.stage.space))
            for target in self.program.destinations(result):
                if moments is None:
                    given = self.without_cast(number, target)
                    self.add(StoreOp(given, self.destination(target, root)))
                else:
                    self.add(StoreMomentsOp(number, target, moments.across is not None))

    def store_reduced(self) -> None:
        """Append stores of the stage's results, of which some have one element for all channels."""
        anchor, known = self.stage.anchor, places(self.stage)
        assert is_convolution(anchor)
        gone = (channel_axis(anchor),)
        destinations = [self.program.destinations(result) for result in self.stage.outputs]
        for root, targets in zip(self.stage.stored, destinations, strict=True):
            axes = known[root]
            value = self.scalar(root, axes)
            for target in targets:
                given, to = self.without_cast(value, target), self.destination(target, root)
                self.add(store_along(self, given, to, axes, gone))


def lower_convolution(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around a convolution."""
    anchor = stage.anchor
    assert isinstance(anchor, ConvolutionOp)
    geometry = geometry_of(anchor)
    x = _readable(builder, stage, anchor.operand)
    w = _readable(builder, stage, anchor.weight)
    layer = layer_of(anchor, geometry)
    layer = layer._replace(
        copied=0 if x.unit_axis == 1 else layer.copied,
        vectors=layer.vectors and x.unit_axis == len(stage.space) - 1,
        matrices=layer.matrices and _has_planes(x, anchor),
        reduced=is_reduced(stage),
        pooled=pooled_sizes(stage),
        measured=any(isinstance(op, PartialMomentsOp) for op in stage.body.block.ops),
        turned=_turned_bytes((x, anchor.operand), (w, anchor.weight)),
    )
    facts = get_target(builder.target).facts
    strategy = choose(layer, facts)
    by_vectors = strategy in (Strategy.TILES, Strategy.WARPGROUPS)
    inner = _adjacent(strategy, geometry)
    if by_vectors and _has_vectors(anchor, geometry) and x.unit_axis != 1:
        dims = Shaped.of(anchor.operand.type).dims
        if not x.is_mapped and geometry.has_single_elements(Shaped.of(anchor.weight.type).dims[2:]):
            x, dims = _every(builder, x, dims, geometry.stride)
            geometry = geometry._replace(stride=(1,) * len(geometry.stride))
        x = _axis_last(builder, stage, x, dims, 1)
    copies = _has_vectors(anchor, geometry) if by_vectors else _has_lone_channels(anchor, geometry, facts)
    sums_channels = strategy in (Strategy.MATRICES, Strategy.PLANES)
    if sums_channels or (copies and x.unit_axis == 1):
        w = (
            w
            if w.unit_axis == inner
            else _axis_last(builder, stage, w, Shaped.of(anchor.weight.type).dims, inner)
        )
    if strategy is Strategy.POSITIONS:
        x, w = (
            v if v.unit_axis == 0 else _axis_last(builder, stage, v, Shaped.of(operand.type).dims, 0)
            for v, operand in ((x, anchor.operand), (w, anchor.weight))
        )
    rank = len(stage.space)
    body = ConvBody(builder, stage)
    if layer.measured:
        body.store_measured()
    elif layer.reduced:
        body.store_reduced()
    else:
        body.store_results()
    kernel = ConvKernelOp(
        stage.stage_name.data,
        strategy,
        anchor.compute,
        build_view(x, rank, builder.block),
        build_view(w, rank, builder.block),
        stage.space,
        geometry,
        Region(body.block),
    )
    kernel.location = anchor.location
    builder.block.add_op(kernel)


def weight_order(op: ConvolutionOp, facts: Facts) -> list[int] | None:
    """Return the order of axes, outermost first, in which a kernel of the operation alone reads weights.

    None where that is row-major, for x as PyTorch has it by default.
    """
    geometry = geometry_of(op)
    strategy = choose(layer_of(op, geometry), facts)
    is_read_so = strategy in (Strategy.TILES, Strategy.WARPGROUPS) and _has_vectors(op, geometry)
    if strategy not in (Strategy.MATRICES, Strategy.PLANES) and not is_read_so:
        return None
    inner, dims = _adjacent(strategy, geometry), Shaped.of(op.weight.type).dims
    order = [a for a in range(len(dims)) if a != inner] + [inner]
    moving = [a for a in order if dims[a] != 1]
    return order if moving != sorted(moving) else None


def _adjacent(strategy: Strategy, geometry: Geometry) -> int:
    """Return the axis of the weights whose elements are adjacent where they are copied for a strategy."""
    apart = strategy in (Strategy.PATCHES, Strategy.DIRECT, Strategy.POSITIONS)
    return 0 if apart or geometry.transposed else 1


def _readable(builder: ProgramBuilder, stage: StageOp, value: SSAValue) -> Access:
    """Return an operand where the kernel can read it: copied if its rows are picked or channels padded."""
    dims = Shaped.of(value.type).dims
    access = builder.at(through_views(value, identity(dims), stage))
    if access.is_gathered or _is_padded_elsewhere(access):
        return copy(builder, stage, access, len(dims), dims)
    return access


def _is_padded_elsewhere(access: Access) -> bool:
    """Whether elements are missing along an axis that is not spatial."""
    base = access.base
    while isinstance(op := base.owner, IndexMapOp):
        padded = {move.axis for move in op.moves if move.bounds is not None}
        view = view_of(op.operand)
        if view.rows is not None or any(access.axes[axis] in (None, 0, 1) for axis in padded):
            return True
        if padded and view.base is not op.operand:
            return True
        base = view.base
    return False


def _has_planes(x: Access, op: ConvolutionOp) -> bool:
    """Whether the positions of a channel of x lie in their order, next to each other."""
    spatial = identity(Shaped.of(op.operand.type).dims)[2:]
    if x.is_mapped or (type := x.type) is None or type.layout.kind.data != "row_major":
        return False
    return x.axes[-len(spatial) :] == spatial


def _has_vectors(op: ConvolutionOp, geometry: Geometry) -> bool:
    """Whether the channels of a group are a multiple of what one instruction copies."""
    channels = Shaped.of(op.operand.type).dims[1]
    piece = WIDEST_ACCESS // dtype_bytes(Shaped.of(op.operand.type).element_type)
    return isinstance(channels, int) and channels // geometry.groups % piece == 0


def _has_lone_channels(op: ConvolutionOp, geometry: Geometry, facts: Facts) -> bool:
    """Whether each channel is a group of its own, and weights are read by vectors of channels."""
    x = Shaped.of(op.operand.type)
    channels, outputs = x.dims[1], op.result_dims[1]
    if not channels == outputs == geometry.groups:
        return False
    if geometry.transposed or not geometry.channels_last:
        return True
    batch, places, element_bytes = op.result_dims[0], op.result_dims[2:], dtype_bytes(x.element_type)
    return best_strip(geometry.groups, batch, places, op.windows, element_bytes, facts) is None


def _axis_last(builder: ProgramBuilder, stage: StageOp, source: Access, dims: Dims, axis: int) -> Access:
    """Copy a tensor so that elements along an axis are adjacent."""
    rank = len(dims)
    order = [a for a in range(rank) if a != axis] + [axis]
    axes = tuple(None if a is None else order.index(a) for a in source.axes)
    copied = copy(builder, stage, Access(source.base, axes), rank, _picked(dims, order))
    back = tuple(None if a is None else order[a] for a in copied.axes)
    return Access(copied.base, back)


def _every(builder: ProgramBuilder, x: Access, dims: Dims, steps: Sequence[int]) -> tuple[Access, Dims]:
    """Return every so many elements of x along its spatial axes, and their extents."""
    value = x.base
    for axis, step in enumerate(steps, 2):
        if step > 1 and axis in x.axes:
            builder.block.add_op(part := SliceOp(value, x.axes.index(axis), 0, dims[axis], step))
            value = Rewriter.replace_value_with_new_type(part.result, in_memory(part.result))
            dims = (*dims[:axis], Shaped.of(value.type).dims[x.axes.index(axis)], *dims[axis + 1 :])
    return Access(value, x.axes), dims


def _turned_bytes(*operands: tuple[Access, SSAValue]) -> int:
    """Return the bytes that copies of operands move whose first axis is not innermost in memory."""
    types = [Shaped.of(value.type) for access, value in operands if access.unit_axis != 0]
    known = [t for t in types if all(isinstance(d, int) for d in t.dims)]
    return sum(2 * dtype_bytes(t.element_type) * math.prod(int(d) for d in t.dims) for t in known)


def _picked(dims: Dims, order: Sequence[int]) -> Dims:
    return tuple(dims[a] for a in order)
