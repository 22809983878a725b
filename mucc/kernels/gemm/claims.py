"""What joins the stage of a contraction besides pointwise work."""

from __future__ import annotations

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import GroupedMatmulOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.interface import FormingStage


def takes(stage: FormingStage, op: AnchorOp) -> bool:
    """Whether an epilogue does a reduction or a scatter of what it computes.

    That of a grouped contraction scatters, as long as it stores nothing else, and does not reduce.
    """
    is_grouped = isinstance(stage.anchor, GroupedMatmulOp)
    match op:
        case ReduceOp():
            return not is_grouped and epilogue_can_reduce(op, stage.space)
        case ScatterOp():
            return is_grouped and not stage.stored
        case _:
            return False


def epilogue_can_reduce(op: ReduceOp, space: Dims) -> bool:
    """Whether a contraction's epilogue can do this reduction over its output's axes.

    CUTLASS reduces along N (one value per row), along M (one per column), or over both; with leading
    axes, also over all axes, or over all but N. It has no minimum, no product, and no integers.
    """
    kinds = (Reduction.SUM, Reduction.MAX, Reduction.AMAX)
    if op.kind.data not in kinds or Shaped.of(op.result.type).element_type == S32:
        return False
    rank, axes = len(space), tuple(op.axes.get_values())
    m, n = rank - 2, rank - 1
    return axes in {(n,), (m,), (m, n), tuple(range(rank)), tuple(range(rank - 1))}
