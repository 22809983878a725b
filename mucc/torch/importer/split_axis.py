"""Compute values with an axis that a module has merged, such as of batches or heads, split again."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import ConcatOp, FullOp, ReshapeOp, SliceOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, TransposeOp
from mucc.dialects.mu.types import DTYPES, Dims, Shaped, TensorType, dtype_name
from mucc.torch.importer.lowering import dims_of

Made = tuple[Sequence[Operation], SSAValue]
"""New operations, and the value that replaces the result of an old one."""


class Split:
    """Computes values with an axis, the first one of `dims` unless another is named, split to `lead`."""

    def __init__(self, lead: Dims, dims: Dims, axis: int = 0):
        self.lead, self.extent = lead, dims[axis]
        self.behind = len(dims) - axis
        """How many axes lie from that one on."""
        self.new: list[Operation] = []
        self._known: dict[SSAValue, SSAValue | None] = {}

    def of(self, value: SSAValue) -> SSAValue | None:
        """Return the value with more axes; None where it cannot be computed so."""
        if value not in self._known:
            self._known[value] = self._of(value)
        return self._known[value]

    def merged(self, value: SSAValue) -> Made | None:
        """Return the value of several axes, merged again."""
        if (split := self.of(value)) is None:
            return give_up(self.new)
        return made(*self.new, ReshapeOp(split, dims_of(value)))

    def _add(self, op: Operation) -> SSAValue:
        self.new.append(op)
        return op.results[0]

    def _of(self, value: SSAValue) -> SSAValue | None:
        dims = dims_of(value)
        at = len(dims) - self.behind
        wide = (*dims[:at], *self.lead, *dims[at + 1 :])
        match op := value.owner:
            case ReshapeOp() if dims_of(op.operand) == wide:
                return op.operand
            case FullOp():
                dtype = DTYPES[dtype_name(Shaped.of(value.type).element_type)]
                return self._add(FullOp(wide, op.value.value.data, dtype))
            case BroadcastOp() if (inner := self.beside(op.operand, len(dims))) is not None:
                return self._add(BroadcastOp(inner, wide))
            case SoftmaxOp() if op.axis.value.data == len(dims) - 1:
                inner = self.of(op.operand)
                return None if inner is None else self._add(SoftmaxOp(inner, len(wide) - 1))
            case TransposeOp() if at < len(dims) - 2:
                inner = self.of(op.operand)
                return None if inner is None else self._add(TransposeOp(inner))
            case ConcatOp() | SliceOp() if op.axis.value.data == len(dims) - 1:
                return self._along_rows(op)
            case ExpandOp() if _is_of_rows(op):
                reduce = op.operand.owner
                assert isinstance(reduce, ReduceOp)
                if (inner := self.of(reduce.operand)) is None:
                    return None
                reduced = self._add(ReduceOp(reduce.kind, inner, [len(wide) - 1]))
                return self._add(ExpandOp(reduced, [len(wide) - 1]))
            case MatmulOp() if op.has_plain_operands and at < len(dims) - 2:
                left, right = (self.beside(v, len(dims)) for v in (op.lhs, op.rhs))
                if left is None or right is None:
                    return None
                return self._add(MatmulOp(left, self.shared(right), op.compute, op.acc))
            case e.ElementwiseOp():
                operands = [self.beside(v, len(dims)) for v in op.operands]
                known = [v for v in operands if v is not None]
                if len(known) < len(operands):
                    return None
                type = TensorType.of(wide, Shaped.of(value.type).element_type)
                return self._add(remade(op, known, type))
            case _:
                return self._add(ReshapeOp(value, wide))

    def beside(self, value: SSAValue, rank: int) -> SSAValue | None:
        """Return an operand of an operation of this rank; it may have no first axis, or one of extent 1."""
        dims = dims_of(value)
        if len(dims) < min(rank, self.behind):
            return value
        at = len(dims) - self.behind
        if dims[at] == 1 and self.extent != 1:
            return self._add(ExpandOp(value, range(at, at + len(self.lead) - 1)))
        return self.of(value) if dims[at] == self.extent else None

    def shared(self, value: SSAValue) -> SSAValue:
        """Return an operand of a product as it is before its batches are repeated: products repeat it."""
        if isinstance(op := value.owner, TransposeOp):
            inner = self.shared(op.operand)
            return value if inner is op.operand else self._add(TransposeOp(inner))
        if not isinstance(op, BroadcastOp):
            return value
        narrow, wide = dims_of(op.operand), dims_of(value)
        is_shared = len(narrow) == len(wide) and narrow[-2:] == wide[-2:]
        return op.operand if is_shared else value

    def _along_rows(self, op: ConcatOp | SliceOp) -> SSAValue | None:
        rank = len(dims_of(op.result))
        inner = [v for v in (self.beside(v, rank) for v in op.operands) if v is not None]
        if len(inner) < len(op.operands):
            return None
        axis = len(dims_of(inner[0])) - 1
        return self._add(
            ConcatOp(inner, axis) if isinstance(op, ConcatOp) else SliceOp(inner[0], axis, *op.range)
        )


def _is_of_rows(op: ExpandOp) -> bool:
    """Whether it is a number for each row, reduced along the last axis, which is restored."""
    last = len(dims_of(op.result)) - 1
    if tuple(op.axes.get_values()) != (last,) or not isinstance(reduce := op.operand.owner, ReduceOp):
        return False
    return tuple(reduce.axes.get_values()) == (last,)


def holds_product(value: SSAValue, *, alone: bool = False) -> bool:
    """Whether a value is computed of a batched product by pointwise operations and softmax.

    If it is `alone`, nothing else reads what is computed on the way.
    """
    pending, seen = [value], {value}
    while pending:
        value = pending.pop()
        op = value.owner
        if alone and not is_only_use(value):
            continue
        if isinstance(op, ReshapeOp):
            value = op.operand
            op = value.owner
        if isinstance(op, MatmulOp) and len(dims_of(value)) > 2:
            return True
        if isinstance(op, e.ElementwiseOp | SoftmaxOp):
            more = [v for v in op.operands if v not in seen and len(dims_of(v)) == len(dims_of(value))]
            seen.update(more)
            pending += more
    return False


def is_only_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


def give_up(new: Sequence[Operation]) -> None:
    """Erase operations that are not used, whose operands would count them among their uses."""
    for op in reversed(new):
        op.erase()


def remade(op: Operation, operands: Sequence[SSAValue], type: TensorType) -> Operation:
    """Make an operation like another, of other operands, with one result of another type."""
    return op.create(operands=operands, result_types=[type], properties=dict(op.properties))


def made(*new: Operation) -> Made:
    return new, new[-1].results[0]
