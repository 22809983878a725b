"""How the pointwise work of a stage looks at tensors: pure bookkeeping about axes.

An access is a tensor in memory with, for each of its axes, the axis of the stage's iteration space
that walks along it (None where the extent is 1). Everything about broadcasting follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp
from mucc.dialects.mu.ops.indexed import GatherOp, ScatterOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, RegroupOp, TransposeOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.walk import postorder

Axes = tuple[int | None, ...]


class Access(NamedTuple):
    """A tensor (or run-time scalar) outside the stage, seen from the stage's space."""

    base: SSAValue
    axes: Axes

    @property
    def walked(self) -> frozenset[int]:
        """The axes of the space that the tensor really varies along."""
        return frozenset(a for a in self.axes if a is not None)

    @property
    def is_gathered(self) -> bool:
        """Whether rows of the tensor are picked by number."""
        return isinstance(self.base.owner, GatherOp)

    @property
    def unit_axis(self) -> int | None:
        """The axis of the space along which the tensor's elements are adjacent.

        Axes of extent 1 do not count: `[M, 1]` in row-major order is adjacent along M.
        """
        if not isinstance(type := self.base.type, TensorType):
            return None
        order = list(range(type.rank))
        match type.layout.kind.data:
            case "row_major" | "padded" | "sparse":
                long = [i for i in order if type.dims[i] != 1]
            case "col_major" | "padded_columns":
                order[-2:] = order[-1], order[-2]
                long = [i for i in order if type.dims[i] != 1]
            case _:
                long = [i for i, s in enumerate(type.layout.stride_values) if s == 1]
        return self.axes[long[-1]] if long else None

    def is_contiguous(self, axis: int) -> bool:
        """Whether the tensor's elements are adjacent along an axis of the space."""
        type = self.base.type
        return (
            isinstance(type, TensorType) and axis in self.axes and type.is_contiguous(self.axes.index(axis))
        )


class Pattern(Enum):
    """What a contraction's epilogue can load."""

    MATRIX = auto()
    ROW = auto()
    COL = auto()
    SCALAR = auto()


def classify(access: Access, space: Dims, folded: int = 0) -> Pattern | None:
    """The pattern of an access from a space (batch axes, M, N); None where none fits.

    The last `folded` batch axes are rows. Of the other batch axes all are walked, with one stride, or none;
    those of one element do not count.
    """
    rank = len(space)
    if access.is_gathered or is_turned(access, rank):
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
    type = access.base.type
    order = [a for a in access.axes if a is not None]
    return (
        not access.is_gathered
        and isinstance(type, TensorType)
        and type.layout.is_row_major
        and order == sorted(order)
    )


def _folds(access: Access) -> bool:
    """Whether the batch axes, which the access walks in order, count through memory as one axis would."""
    type = access.base.type
    return isinstance(type, TensorType) and type.layout.kind.data != "strides"


def identity(dims: Dims, first: int = 0) -> Axes:
    """The axes of a value that fills the space from its axis `first` on."""
    return tuple(None if d == 1 else i for i, d in enumerate(dims, first))


def transposed(axes: Axes) -> Axes:
    """The axes of the view with the last two swapped."""
    return (*axes[:-2], axes[-1], axes[-2])


def operand_axes(op: Operation, operand: SSAValue, axes: Axes) -> Axes:
    """The axes of an operand, given those of the op's result."""
    dims = Shaped.of(operand.type).dims
    match op:
        case TransposeOp():
            return transposed(axes)
        case PermuteOp():
            order = op.order.get_values()
            return tuple(axes[order.index(i)] for i in range(len(order)))
        case ExpandOp():
            inserted = set(op.axes.get_values())
            return tuple(a for i, a in enumerate(axes) if i not in inserted)
        case _:
            tail = axes[len(axes) - len(dims) :]
            return tuple(None if d == 1 else a for d, a in zip(dims, tail, strict=True))


def is_inside(value: SSAValue, stage: StageOp) -> bool:
    """Whether a value is computed in the stage's region."""
    return isinstance(owner := value.owner, Operation) and owner.parent_op() is stage


def through_views(value: SSAValue, axes: Axes, stage: StageOp) -> Access:
    """Follow views inside the stage back to what they look at."""
    views = (TransposeOp, PermuteOp, ExpandOp, BroadcastOp)
    while is_inside(value, stage) and isinstance(op := value.owner, views):
        axes = operand_axes(op, op.operand, axes)
        value = op.operand
    return Access(value, axes)


def pointwise_roots(stage: StageOp) -> Iterator[SSAValue]:
    """The values that a stage's pointwise work ends in: what it stores, and what it reduces."""
    last = stage.body.block.last_op
    assert last is not None
    for value in last.operands:
        if is_inside(value, stage) and isinstance(value.owner, ReduceOp | ScatterOp):
            yield value.owner.operand
        else:
            yield value


def accesses(stage: StageOp) -> list[Access]:
    """What the pointwise work of a stage loads, each access once, in order of first use."""
    found: dict[Access, None] = {}
    seen: set[tuple[SSAValue, Axes]] = set()

    def operands(key: tuple[SSAValue, Axes]) -> Iterator[tuple[SSAValue, Axes]]:
        value, axes = key
        owner = value.owner
        if not is_inside(value, stage) or isinstance(owner, RegroupOp | GatherOp):
            found[Access(value, axes)] = None
        elif isinstance(owner, ElementwiseOp | TransposeOp | PermuteOp | ExpandOp | BroadcastOp):
            yield from ((operand, operand_axes(owner, operand, axes)) for operand in owner.operands)
        else:
            assert isinstance(owner, ConstantOp | AnchorOp), owner

    for root in pointwise_roots(stage):
        seen.update(postorder((root, root_axes(root, stage)), operands, seen))
    return list(found)


def root_axes(root: SSAValue, stage: StageOp) -> Axes:
    """The axes of a stored or reduced value within the stage's space, aligned at the right."""
    dims, space = Shaped.of(root.type).dims, stage.space
    return tuple(None if d == 1 else i for i, d in enumerate(dims, len(space) - len(dims)))


class Problem(NamedTuple):
    """How a contraction's axes become M, N, K and L.

    The last `folded` batch axes of A are taken as further rows, which needs B without them.
    """

    m: Dims
    n: Dims
    k: Dims
    batch: Dims
    folded: int


def problem_of(stage: StageOp) -> Problem:
    """The problem of a contraction stage: batch axes become rows where that is possible.

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
    return Problem(dims[first:-1], dims[-1:], k, dims[:first], folded)


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
    """A of a contraction; its axes are those of [batch, M, K], with K numbered as the last."""
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
    if access.is_gathered or is_turned(access, rank):
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
