"""Pick from the operands of pointwise work, not from its result: it is computed for picked elements alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.indexed import GatherOp, TakeAlongOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import VIEWS, BroadcastOp, ExpandOp
from mucc.dialects.mu.types import Dim, Shaped, TensorType, is_packed
from mucc.dialects.rewriting import Emit
from mucc.dialects.walk import postorder
from mucc.kernels.registry import claimant


@dataclass(frozen=True)
class PickOperands(RewritePattern):
    """`take_along(x - s, i)` -> `take_along(x, i) - s`, where s has extent 1 along the axis.

    All pointwise work between the values in memory and the picked elements is then computed for these alone.
    It stays where it is if more elements are picked than there are, or if a product, a scan or the like would
    have to be stored for the picked elements only.
    """

    target: str

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, TakeAlongOp) or not _is_pointwise(op.operand):
            return
        if not _are_fewer(Shaped.of(op.rows.type).dims[op.row_axis], _extent(op.operand, op)):
            return
        values = list(postorder(op.operand, lambda v: _varying(v, op)))
        reached: set[SSAValue] = set()
        """Values that can be picked early, or whose operands can."""
        through: set[SSAValue] = set()
        for value in values:
            if _is_pointwise(value) and all(v in reached for v in _varying(value, op)):
                through.add(value)
            if value in through or (self._is_in_memory(value) and _fits(value, op)):
                reached.add(value)
        if op.operand not in through:
            return
        emit, picked = Emit(), dict[SSAValue, SSAValue]()
        for value in postorder(op.operand, lambda v: _varying(v, op) if v in through else ()):
            picked[value] = (_again if value in through else _pick)(emit, value, picked, op)
        rewriter.replace(op, emit.ops, [picked[op.operand]])

    def _is_in_memory(self, value: SSAValue) -> bool:
        """Whether other kernels read a value from memory anyway, where it has all elements.

        No kernel stores bools: those that read one compute it. Numbers that share bytes cannot be picked.
        """
        if Shaped.of(value.type).element_type == i1 or is_packed(Shaped.of(value.type).element_type):
            return False
        while isinstance(view := value.owner, VIEWS):
            if view.name == "mu.place":
                return False
            value = view.operand
        match op := value.owner:
            case PinOp() | Block():
                return True
            case AnchorOp() if kind := claimant(op, self.target):
                return not kind.keeps_in_flight(op) or not value.has_one_use()
            case _:
                return not value.has_one_use()


def _is_pointwise(value: SSAValue) -> bool:
    return isinstance(value.owner, ElementwiseOp | BroadcastOp)


def _are_fewer(picked: Dim, given: Dim) -> bool:
    """Whether it is known that at most as many elements are picked as there are."""
    return picked in (1, given) or (isinstance(picked, int) and isinstance(given, int) and picked < given)


def _extent(value: SSAValue, op: TakeAlongOp) -> Dim:
    """Return the extent of a value, aligned at the right with what is picked from, along the picked axis."""
    dims = Shaped.of(value.type).dims
    place = op.row_axis - len(Shaped.of(op.operand.type).dims)
    return dims[place] if -place <= len(dims) else 1


def _varying(value: SSAValue, op: TakeAlongOp) -> Iterator[SSAValue]:
    """Yield the operands of pointwise work that vary along the picked axis."""
    if isinstance(owner := value.owner, ElementwiseOp | BroadcastOp):
        yield from (v for v in owner.operands if _extent(v, op) != 1)


def _vector(value: SSAValue) -> SSAValue | None:
    """Return a value without its axes of extent 1 if that is a vector; None otherwise."""
    if isinstance(view := value.owner, ExpandOp):
        value = view.operand
    return value if len(Shaped.of(value.type).dims) == 1 else None


def _pick(emit: Emit, value: SSAValue, picked: dict[SSAValue, SSAValue], op: TakeAlongOp) -> SSAValue:
    """Pick elements of a value in memory for which `_fits` holds; reuse those in `picked`."""
    if Shaped.of(value.type).dims == Shaped.of(op.operand.type).dims:
        return emit(TakeAlongOp(value, op.rows, op.row_axis))
    vector = _vector(value)
    assert vector is not None
    if vector not in picked:
        picked[vector] = emit(GatherOp(vector, op.rows))
    return picked[vector]


def _fits(value: SSAValue, op: TakeAlongOp) -> bool:
    """Whether a value has all extents of what is picked from, or that along the picked axis alone."""
    return Shaped.of(value.type).dims == Shaped.of(op.operand.type).dims or _vector(value) is not None


def _again(emit: Emit, value: SSAValue, picked: dict[SSAValue, SSAValue], op: TakeAlongOp) -> SSAValue:
    """Apply pointwise work to operands of which elements are picked."""
    owner = value.owner
    assert isinstance(owner, ElementwiseOp | BroadcastOp)
    dims, element = Shaped.of(op.rows.type).dims, Shaped.of(value.type).element_type
    new = type(owner).create(
        operands=[picked.get(v, v) for v in owner.operands],
        result_types=[TensorType.of(dims, element)],
        properties=dict(owner.properties),
    )
    new.location = owner.location
    return emit(new)
