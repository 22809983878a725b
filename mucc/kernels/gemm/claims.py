"""Decide which operations join the stage of a contraction besides pointwise work."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import GroupedMatmulOp, MatmulOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.kernels.gemm.column_groups import TILES
from mucc.kernels.interface import Answer, FormingStage, Joins, Refused
from mucc.kernels.lowering.chains import is_reduced_again
from mucc.kernels.normalize.placing import REDUCTIONS, opens_chain
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
        case ReduceOp() if _is_within_tile(op, stage.space):
            return Refused("a kernel of its own takes rows this short, or the product's with all behind it")
        case ReduceOp() if is_reduced_again(op):
            return Refused("a kernel behind it reduces the operand once more, and finds both in one pass")
        case ReduceOp():
            reason = why_not_reduced(op, stage.space)
        case ScatterOp() if not is_grouped:
            return Refused("only the epilogue of a grouped product scatters")
        case ScatterOp():
            reason = "an epilogue that scatters stores nothing else" if stage.stored else None
        case _:
            reason = f"the epilogue of a product takes no {op.stage}"
    return Joins(Traffic.of(op.operands[0].type)) if reason is None else Refused(reason)


def _is_within_tile(op: ReduceOp, space: Dims) -> bool:
    """Whether a reduction is of rows that a tile may have whole, and work over all elements needs it.

    Such a chain becomes part of the product by `join-rows`.
    """
    columns = space[-1]
    is_short = (
        isinstance(columns, int)
        and 1 < columns <= TILES[-1]
        and list(op.axes.get_values()) == [len(space) - 1]
    )
    return is_short and op.kind.data in REDUCTIONS and opens_chain(op)


def takes_repeated(anchor: AnchorOp, operand: SSAValue) -> bool:
    """Whether a kernel reads an operand of which a view repeats elements, if need be from a copy."""
    match anchor:
        case GroupedMatmulOp():
            return operand not in (anchor.rhs, anchor.offsets)
        case MatmulOp():
            return anchor.blocks is None or operand not in anchor.scales
        case _:
            return True


def stores_ranges(anchor: AnchorOp, types: Sequence[TensorType], target: str) -> bool:
    """Whether the kernel of a plain product can store ranges of its columns as matrices of these types.

    TMA copies operands and ranges: all have rows of whole 16 bytes, or may be promised to.
    """
    from mucc.kernels.gemm.granules import may_be_wide
    from mucc.kernels.gemm.scheduling import gemm_target

    if not isinstance(anchor, MatmulOp) or not anchor.has_plain_operands:
        return False
    lhs, rhs, kernel = anchor.lhs.type, anchor.rhs.type, anchor.parent_op()
    if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType) or not isinstance(kernel, KernelOp):
        return False
    if lhs.is_sparse or rhs.is_sparse or len({type.element_type for type in types}) > 1:
        return False
    if not all(may_be_wide(kernel, type) for type in (lhs, rhs, *types)):
        return False
    along_k = lhs.is_contiguous(lhs.rank - 1), rhs.is_contiguous(rhs.rank - 2)
    return gemm_target(target).stores_ranges(anchor.compute.data.value, *along_k, types[0].dtype)


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
