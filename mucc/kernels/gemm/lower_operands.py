"""Lower the operands of contractions: views that a kernel can read, behind copies where it cannot."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import IndexMapOp
from mucc.dialects.mu.types import Dims, LayoutAttr, Shaped, TensorType, dtype_bytes
from mucc.kernels.gemm.axes import MatmulDims, operand_fits
from mucc.kernels.lowering.access import Access, identity, through_views
from mucc.kernels.lowering.program import ProgramBuilder, build_view
from mucc.kernels.map.copies import copy


def operand(
    builder: ProgramBuilder,
    stage: StageOp,
    access: Access,
    problem: MatmulDims,
    dims: Dims,
    *,
    is_right: bool = False,
    groups: bool = False,
    k_major: bool = False,
    picks: bool = False,
) -> SSAValue:
    """Return an operand as a view that the kernel can read, of a copy if it cannot read the tensor itself.

    A right operand has extent 1 along the batch axes that are folded into rows; `groups` says that it has
    an axis for groups of rows. Matrix instructions take operands of 8 bits contiguous along K only;
    `k_major` asks that of others too. `picks` says that a kernel may pick rows by number.
    """
    access, space, batch = builder.at(access), stage.space, len(problem.batch)
    if picks and not problem.batch and not problem.folded and _is_picked(access, len(space)):
        return access.base
    rank = len(space)
    if groups:
        space, rank, batch = dims, len(dims), 1
    k = rank - 2 if is_right else rank - 1
    k_major = k_major or dtype_bytes(Shaped.of(access.base.type).element_type) == 1
    single = frozenset(a for a, d in enumerate(dims[-2:], rank - 2) if d == 1 and a != k)
    if not operand_fits(access, space, single, batch) or (k_major and not access.is_contiguous(k)):
        # A copy for every batch or group, or one for all.
        walked = space[:batch] if groups or any(axis < batch for axis in access.walked) else ()
        folded = space[batch : batch + problem.folded]
        if is_right:
            folded = (1,) * len(folded) if walked else ()
        layout = LayoutAttr.col_major() if k_major and is_right else LayoutAttr.row_major()
        access = copy(builder, stage, access, rank, (*walked, *folded, *dims[-2:]), layout)
    return build_view(access, rank, builder.block)


def _is_picked(access: Access, rank: int) -> bool:
    """Whether an access is to whole rows, each contiguous, that a vector names."""
    view = view_of(access.base)
    if view.rows is None or isinstance(view.base.owner, IndexMapOp) or access.axes != (rank - 2, rank - 1):
        return False
    rows, matrix = view_of(view.rows), view.base.type
    return (
        isinstance(matrix, TensorType)
        and (view.axes, view.row_axes, view.row_axis) == ((None, 1), (0, None), 0)
        and matrix.rank == 2
        and matrix.unit_axis == 1
        and rows.axes == (0,)
        and isinstance(rows.base.type, TensorType)
        and rows.base.type.rank == 1
        and rows.base.type.unit_axis == 0
    )


def block_scale(builder: ProgramBuilder, stage: StageOp, value: SSAValue) -> SSAValue:
    """Return where the scales of blocks lie."""
    access = through_views(value, identity(dims := Shaped.of(value.type).dims), stage)
    if access.is_mapped:
        access = copy(builder, stage, builder.at(access), len(dims), dims)
    return builder.outside(access.base)


def group_scale(builder: ProgramBuilder, stage: StageOp, value: SSAValue) -> SSAValue:
    """Return scales or zeros of groups as a view; the kernel reads them with any strides."""
    dims = Shaped.of(value.type).dims
    access = builder.at(through_views(value, identity(dims), stage))
    if access.is_gathered or access.is_mapped:
        access = copy(builder, stage, access, len(dims), dims)
    return build_view(access, len(dims), builder.block)
