"""Map kernels that other kernels need before them: copies of tensors, and zeros."""

from __future__ import annotations

from xdsl.ir import Block, Region, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import LoadOp, StoreOp
from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, LayoutAttr, Shaped, TensorType
from mucc.kernels.lowering.access import Access, identity, through_views
from mucc.kernels.lowering.program import ProgramBuilder, build_view
from mucc.kernels.lowering.reach import is_in_reach, is_whole
from mucc.kernels.map.op import MapOp


def copy(
    builder: ProgramBuilder,
    stage: StageOp,
    access: Access,
    rank: int,
    dims: Dims,
    layout: LayoutAttr | None = None,
) -> Access:
    """Copy a tensor to the workspace, as an access from a space of `rank` axes sees it.

    The copy has the extents `dims`, the last of that space, and is row-major unless `layout` says otherwise.
    """
    element = Shaped.of(access.base.type).element_type
    builder.block.add_op(workspace := c.WorkspaceOp(TensorType.of(dims, element, layout)))
    body = Block()
    view = build_view(access, rank, builder.block)
    body.add_op(load := LoadOp(view))
    body.add_op(StoreOp(load.result, workspace.result))
    builder.block.add_op(MapOp(builder.helper(stage, "copy"), dims, Region(body)))
    return Access(workspace.result, identity(dims, rank - len(dims)))


def contiguous_vector(builder: ProgramBuilder, stage: StageOp, value: SSAValue) -> SSAValue:
    """Return a tensor of one axis with adjacent elements: itself, or a copy of it."""
    access = builder.at(through_views(value, (0,), stage))
    dims = Shaped.of(value.type).dims
    if access.is_gathered or access.is_mapped or (dims != (1,) and access.unit_axis != 0):
        access = copy(builder, stage, access, 1, dims)
    return access.base


def contiguous_rows(
    builder: ProgramBuilder, stage: StageOp, value: SSAValue, *, parts: bool = False, regrouped: bool = True
) -> SSAValue:
    """Return a view of a tensor whose last axis is contiguous, copying the tensor if it is not.

    With `parts`, slices that begin at multiples of 16 bytes are views as well; without `regrouped` only where
    this is certain, for kernels that do not find out at each launch how they can read them.
    """
    dims = Shaped.of(value.type).dims
    rank = len(dims)
    access = builder.at(through_views(value, identity(dims), stage))
    is_mapped = access.is_mapped and not (
        parts and is_in_reach(access, regrouped=regrouped or is_whole(access))
    )
    if access.is_gathered or is_mapped or (dims[-1] != 1 and access.unit_axis != rank - 1):
        access = copy(builder, stage, access, rank, dims)
    return build_view(access, rank, builder.block)


def clear(builder: ProgramBuilder, stage: StageOp, target: SSAValue) -> None:
    """Fill a tensor with zeros, for the rows that a scatter does not write."""
    assert isinstance(target.type, TensorType)
    body = Block()
    body.add_op(zero := ConstantOp(0.0))
    body.add_op(StoreOp(zero.result, target))
    builder.block.add_op(MapOp(builder.helper(stage, "zero"), target.type.dims, Region(body)))
