"""Map the axes of a stage's pointwise work to the axes of tensors.

An access is a tensor in memory with, for each of its axes, the axis of the stage's iteration space
that walks along it (None where the extent is 1). Everything about broadcasting follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp, ExtentOp
from mucc.dialects.mu.ops.indexed import PickOp, ScatterOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import (
    AXIS_VIEWS,
    BroadcastOp,
    ExpandOp,
    GeneratedOp,
    IndexMapOp,
    PermuteOp,
    RegroupOp,
    SqueezeOp,
    TransposeOp,
)
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.walk import postorder

Axes = tuple[int | None, ...]


class Access(NamedTuple):
    """A tensor (or run-time scalar) outside the stage, seen from the stage's space."""

    base: SSAValue
    axes: Axes

    @property
    def walked(self) -> frozenset[int]:
        """The axes of the space along which the tensor varies."""
        return frozenset(a for a in self.axes if a is not None)

    @property
    def is_gathered(self) -> bool:
        """Whether elements of the tensor are picked by number."""
        return isinstance(self.base.owner, PickOp)

    @property
    def is_mapped(self) -> bool:
        """Whether elements of the tensor are read at other indices, as in slices and flips."""
        return isinstance(self.base.owner, IndexMapOp)

    @property
    def type(self) -> TensorType | None:
        """The type of the tensor, with the layout that its elements have in memory; None for a scalar."""
        return in_memory(self.base) if isinstance(self.base.type, TensorType) else None

    @property
    def unit_axis(self) -> int | None:
        """The axis of the space along which the tensor's elements are adjacent.

        Axes of extent 1 do not count: `[M, 1]` in row-major order is adjacent along M.
        """
        if (type := self.type) is None:
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
        type = self.type
        return type is not None and axis in self.axes and type.is_contiguous(self.axes.index(axis))


def in_memory(tensor: SSAValue) -> TensorType:
    """Return the type of a tensor with the layout that its elements have in memory."""
    type = tensor.type
    assert isinstance(type, TensorType)
    if isinstance(owner := tensor.owner, IndexMapOp):
        return TensorType.of(type.dims, type.element_type, owner.layout)
    return type


def identity(dims: Dims, first: int = 0) -> Axes:
    """Return the axes of a value that fills the space from its axis `first` on."""
    return tuple(None if d == 1 else i for i, d in enumerate(dims, first))


def transposed(axes: Axes) -> Axes:
    """Return the axes of the view with the last two swapped."""
    return (*axes[:-2], axes[-1], axes[-2])


def operand_axes(op: Operation, operand: SSAValue, axes: Axes) -> Axes:
    """Return the axes of an operand, given those of the op's result."""
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
        case SqueezeOp():
            dropped, kept = set(op.axes.get_values()), iter(axes)
            return tuple(None if i in dropped else next(kept) for i in range(len(dims)))
        case _:
            tail = axes[len(axes) - len(dims) :]
            return tuple(None if d == 1 else a for d, a in zip(dims, tail, strict=True))


def is_inside(value: SSAValue, stage: StageOp) -> bool:
    """Whether a value is computed in the stage's region."""
    return isinstance(owner := value.owner, Operation) and owner.parent_op() is stage


def part_in_flight(value: SSAValue, stage: StageOp) -> IndexMapOp | None:
    """Return the index map that a value is if its operand is computed in the stage; None for others.

    Only some elements of such an operand are stored. Other index maps read memory.
    """
    if not is_inside(value, stage) or not isinstance(op := value.owner, IndexMapOp):
        return None
    is_computed = is_inside(op.operand, stage) and isinstance(op.operand.owner, ElementwiseOp | AnchorOp)
    return op if is_computed else None


def through_views(value: SSAValue, axes: Axes, stage: StageOp) -> Access:
    """Follow views inside the stage back to what they look at."""
    while is_inside(value, stage) and isinstance(op := value.owner, (*AXIS_VIEWS, BroadcastOp)):
        axes = operand_axes(op, op.operand, axes)
        value = op.operand
    return Access(value, axes)


def pointwise_roots(stage: StageOp) -> Iterator[SSAValue]:
    """Yield the values that a stage stores or reduces: the results of its pointwise work."""
    for value in stage.stored:
        if is_inside(value, stage) and isinstance(value.owner, ReduceOp | ScatterOp):
            yield value.owner.operand
        else:
            yield value


def accesses(stage: StageOp) -> list[Access]:
    """Return the tensors that the pointwise work of a stage loads, each once, in order of first use."""
    found: dict[Access, None] = {}
    seen: set[tuple[SSAValue, Axes]] = set()

    def operands(key: tuple[SSAValue, Axes]) -> Iterator[tuple[SSAValue, Axes]]:
        value, axes = key
        owner = value.owner
        if (part := part_in_flight(value, stage)) is not None:
            yield part.operand, axes
        elif not is_inside(value, stage) or isinstance(owner, RegroupOp | PickOp | IndexMapOp):
            found[Access(value, axes)] = None
        elif isinstance(owner, GeneratedOp):
            yield from ((operand, ()) for operand in owner.operands)
        elif isinstance(owner, (ElementwiseOp, *AXIS_VIEWS, BroadcastOp)):
            yield from ((operand, operand_axes(owner, operand, axes)) for operand in owner.operands)
        else:
            assert isinstance(owner, ConstantOp | ExtentOp | AnchorOp), owner

    for root in pointwise_roots(stage):
        seen.update(postorder((root, root_axes(root, stage)), operands, seen))
    return list(found)


def root_axes(root: SSAValue, stage: StageOp) -> Axes:
    """Return the axes of a stored or reduced value within the stage's space, aligned at the right."""
    dims, space = Shaped.of(root.type).dims, stage.space
    return tuple(None if d == 1 else i for i, d in enumerate(dims, len(space) - len(dims)))
