"""What joins the stage of a contraction besides pointwise work."""

from __future__ import annotations

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import GroupedMatmulOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.interface import Answer, FormingStage, Joins, Refused
from mucc.kernels.traffic import Traffic


def takes(stage: FormingStage, op: AnchorOp) -> Answer:
    """Say whether an epilogue does a reduction or a scatter of what it computes.

    That of a grouped contraction scatters, as long as it stores nothing else, and does not reduce. Either
    saves that a kernel of its own reads the operand.
    """
    is_grouped = isinstance(stage.anchor, GroupedMatmulOp)
    match op:
        case ReduceOp() if is_grouped:
            return Refused("the epilogue of a grouped product does not reduce")
        case ReduceOp():
            reason = why_not_reduced(op, stage.space)
        case ScatterOp() if not is_grouped:
            return Refused("only the epilogue of a grouped product scatters")
        case ScatterOp():
            reason = "an epilogue that scatters stores nothing else" if stage.stored else None
        case _:
            reason = f"the epilogue of a product takes no {op.stage}"
    return Joins(Traffic.of(op.operands[0].type)) if reason is None else Refused(reason)


def why_not_reduced(op: ReduceOp, space: Dims) -> str | None:
    """Why a contraction's epilogue cannot do this reduction over its output's axes; None where it can.

    CUTLASS reduces along N (one value per row), along M (one per column), or over both; with leading
    axes, also over all axes, or over all but N. It has no minimum, no product, and no integers.
    """
    if op.kind.data not in (Reduction.SUM, Reduction.MAX, Reduction.AMAX):
        return f"the epilogue of a product has no {op.kind.data}"
    if Shaped.of(op.result.type).element_type == S32:
        return "the epilogue of a product does not reduce integers"
    rank, axes = len(space), tuple(op.axes.get_values())
    m, n = rank - 2, rank - 1
    if axes not in {(n,), (m,), (m, n), tuple(range(rank)), tuple(range(rank - 1))}:
        return f"the epilogue of a product cannot reduce along axes {', '.join(map(str, axes))} of {rank}"
    return None
