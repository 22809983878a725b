"""Map the axes of a contraction to those of its operands and of the tensors in its epilogue."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.lowering.access import Access, Axes, accesses, through_views
from mucc.kernels.lowering.reach import is_in_reach


class Pattern(Enum):
    """What a contraction's epilogue can load."""

    MATRIX = auto()
    ROW = auto()
    COL = auto()
    SCALAR = auto()


def classify(access: Access, space: Dims, folded: int = 0) -> Pattern | None:
    """Return the pattern of an access from a space (batch axes, M, N); None if no pattern fits.

    The last `folded` batch axes are rows. Of the other batch axes all are walked, with one stride, or none;
    those of one element do not count.
    """
    rank = len(space)
    if access.is_gathered or is_turned(access, rank) or not is_in_reach(access):
        return None
    m, n = rank - 2, rank - 1
    batch = frozenset(axis for axis in range(rank - 2 - folded) if space[axis] != 1)
    walked_batch = access.walked & batch
    if walked_batch not in (batch, frozenset[int]()) or (len(walked_batch) > 1 and not _folds(access)):
        return None
    unit = n if access.unit_axis == n else m if folded or access.unit_axis == m else None
    match (bool(access.walked - batch - {n}), n in access.walked):
        case (True, True):
            return Pattern.MATRIX if unit is not None else None
        case (False, True):
            return Pattern.ROW if unit == n else None
        case (True, False):
            return Pattern.COL if unit == m else None
        case _:
            return Pattern.SCALAR


def is_turned(access: Access, rank: int) -> bool:
    """Whether a tensor's axes lie in another order than the space's, but for its last two: no kernel of a
    contraction reads that."""
    order = [min(a, rank - 2) for a in access.axes if a is not None]
    return order != sorted(order)


def _packed(access: Access) -> bool:
    """Whether the tensor lies contiguously, in the order of the space's axes."""
    type = access.type
    order = [a for a in access.axes if a is not None]
    return not access.is_gathered and type is not None and type.layout.is_row_major and order == sorted(order)


def _folds(access: Access) -> bool:
    """Whether the batch axes, which the access walks in order, count through memory as one axis would."""
    return access.type is not None and access.type.layout.kind.data != "strides"


class MatmulDims(NamedTuple):
    """The dims of a contraction that a kernel takes as M, N, K and L (batches).

    The last `folded` batch axes of A are taken as further rows, which needs B without them.
    """

    m: Dims
    n: Dims
    k: Dims
    batch: Dims
    folded: int


def matmul_dims(stage: StageOp) -> MatmulDims:
    """Return M, N, K and L of a contraction stage; batch axes become rows where that is possible.

    It is tried for all of them, and else for those that B lacks if it has others.
    """
    matmul = stage.anchor
    assert isinstance(matmul, ContractionOp)
    dims = Shaped.of(matmul.result.type).dims
    k = Shaped.of(matmul.lhs.type).dims[-1:]
    rank, count = len(dims), len(dims) - 2
    walked = len(rhs_access(stage, matmul).walked & set(range(count)))
    options = (count, count - walked) if walked else (count,)
    folded = next((f for f in options if f > 0 and _can_fold(stage, matmul, rank, f)), 0)
    first = count - folded
    return MatmulDims(dims[first:-1], dims[-1:], k, dims[:first], folded)


def _can_fold(stage: StageOp, matmul: ContractionOp, rank: int, folded: int) -> bool:
    """Whether all that a stage reads has the last `folded` batch axes in one with its rows, or lacks both."""
    lhs = lhs_access(stage, matmul)
    rhs = rhs_access(stage, matmul)
    first = rank - 2 - folded
    everything = frozenset(i for i, d in enumerate(stage.space) if d != 1)
    rows, batch = everything & set(range(first, rank - 1)), everything & set(range(first))
    if rhs.walked & set(range(first, rank - 2)) or not _packed(lhs) or lhs.walked & rows != rows:
        return False
    for access in accesses(stage):
        if access.is_gathered:
            return False
        if access.walked & rows not in (rows, frozenset[int]()) or access.walked & batch not in (
            batch,
            frozenset[int](),
        ):
            return False
        if access.walked & rows and not _packed(access):
            return False
    reduced = [
        everything & set(op.axes.get_values()) for op in stage.body.block.ops if isinstance(op, ReduceOp)
    ]
    if first:
        return not reduced
    return all(axes in (everything - rows, rows, everything) for axes in reduced)


def lhs_access(stage: StageOp, matmul: ContractionOp) -> Access:
    """Return the access to A of a contraction, whose axes are [batch, M, K], with K numbered as the last."""
    dims = Shaped.of(matmul.lhs.type).dims
    return through_views(matmul.lhs, _matmul_axes(dims, Shaped.of(matmul.result.type).dims), stage)


def rhs_access(stage: StageOp, matmul: ContractionOp) -> Access:
    """B of a contraction; its axes are those of [batch, K, N], or [groups, K, N]."""
    dims = Shaped.of(matmul.rhs.type).dims
    result = dims if isinstance(matmul, GroupedMatmulOp) else Shaped.of(matmul.result.type).dims
    return through_views(matmul.rhs, _matmul_axes(dims, result), stage)


def _matmul_axes(dims: Dims, result: Dims) -> Axes:
    """Batch axes broadcast, the last two are always walked, even with extent 1."""
    rank = len(result)
    axes: list[int | None] = []
    for i, d in enumerate(dims):
        position = rank - len(dims) + i
        axes.append(position if i >= len(dims) - 2 or d != 1 else None)
    return tuple(axes)


def operand_fits(
    access: Access, space: Dims, single: frozenset[int] = frozenset(), batch_axes: int | None = None
) -> bool:
    """Whether a kernel can read a contraction's operand where it lies.

    One of its last two axes must be contiguous. Of the space's batch axes (by default all but the last two)
    those of one element do not count; all others must be there, in order, and fold into one stride, or all be
    missing. Of the last two, an axis in
    `single`, where the operand has one element, may be missing: a vector is a matrix of one row.
    """
    rank = len(space)
    if access.is_gathered or is_turned(access, rank) or not is_in_reach(access):
        return False
    axes = range(rank - 2 if batch_axes is None else batch_axes)
    batch = tuple(axis for axis in axes if space[axis] != 1)
    matrix = {rank - 2, rank - 1}
    if access.unit_axis not in matrix or not matrix <= access.walked | single:
        return False
    walked = tuple(a for a in access.axes if a is not None and a < len(axes))
    if not walked:
        return True
    if walked != batch:
        return False
    return len(batch) == 1 or _folds(access)
