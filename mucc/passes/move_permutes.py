"""Move permutations behind pointwise work on products, which then joins the kernel of the product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.dialects.walk import postorder


class MovePermutes(Pass):
    """Do pointwise work on a product with the product's order of axes, and permute what comes of it.

    ```
    %p = mu.matmul ... : [N, H, W, C]                     %t = mu.squeeze %g : [C, 1, 1] -> [C]
    %q = mu.permute %p order [0, 3, 1, 2]                 %s = mu.mul %t, %p
    %s = mu.mul %g, %q : [C, 1, 1] by [N, C, H, W]   ->   %y = mu.add %s, %x : [N, H, W, C]
    %r = mu.permute %x order [0, 3, 1, 2]
    %y = mu.add %s, %r                                    %z = mu.permute %y order [0, 3, 1, 2]
    ```

    A permutation of what a kernel computes reads memory, so work behind it would be a kernel of its own.
    A permutation moves where the other operands of the work are permuted alike, or can be read in the order
    of the product without a copy: numbers, and tensors that vary along axes that keep their order. Two
    permutations of which the second restores the order, such as those to channels second and back, vanish.
    Axes of extent 1 may change places anywhere.
    """

    name = "move-permutes"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [_Cancel(), _Move()])


class Turn(NamedTuple):
    """An exchange of axes: axis i of the tensor of extents `dims` is axis `order[i]` of the original."""

    order: tuple[int, ...]
    dims: Dims

    def original(self, dims: Dims) -> Dims | None:
        """Return the extents of a tensor that broadcasts to `dims`, before its axes were permuted.

        None where it does not, or where axes that it varies along would change places.
        """
        if len(dims) > len(self.dims):
            return None
        found: list[int | str] = [1] * len(self.dims)
        last = -1
        for extent, whole, axis in zip(
            reversed(dims), reversed(self.dims), reversed(self.order), strict=False
        ):
            if extent == 1:
                continue
            if extent != whole or (last != -1 and axis > last):
                return None
            found[axis], last = extent, axis
        first = next((axis for axis, extent in enumerate(found) if extent != 1), len(found) - 1)
        return tuple(found[first:])


class _Cancel(RewritePattern):
    """`permute(permute(x))` -> `x`, where the second restores the order of axes longer than 1."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (outer := _order(op)) is None or not isinstance(view := op.operands[0].owner, Operation):
            return
        if (inner := _order(view)) is None:
            return
        b = Emit()
        places = [inner[axis] for axis in outer]
        if (value := _in_place(b, view.operands[0], places, Shaped.of(op.results[0].type).dims)) is not None:
            rewriter.replace(op, b.ops, [value])


class _Move(RewritePattern):
    """`f(permute(x), g)` -> `permute(f(x, g))`, where x is pointwise work on a product."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ElementwiseOp) or (type := op.row_major_type) is None:
            return
        dims = Shaped.of(type).dims
        for operand in op.operands:
            view = operand.owner
            if not isinstance(view, Operation) or (order := _order(view)) is None:
                continue
            if Shaped.of(operand.type).dims != dims or not _is_of_product(view.operands[0]):
                continue
            b = Emit()
            if (made := _remade(b, op, Turn(order, dims))) is not None:
                rewriter.replace(op, [*b.ops, PermuteOp(made, order)])
                return
            b.discard()


def _order(op: Operation) -> tuple[int, ...] | None:
    """Return the order in which an operation reads the axes of its operand; None if it is no permutation."""
    if isinstance(op, PermuteOp):
        return tuple(op.order.get_values())
    if not isinstance(op, TransposeOp):
        return None
    rank = len(Shaped.of(op.operand.type).dims)
    return (*range(rank - 2), rank - 1, rank - 2)


def _is_of_product(value: SSAValue) -> bool:
    """Whether a value is a product of matrices, or pointwise work of its extents on one."""
    dims = Shaped.of(value.type).dims
    return any(
        isinstance(v.owner, MatmulOp) and Shaped.of(v.type).dims == dims for v in postorder(value, _operands)
    )


def _is_computed(value: SSAValue) -> bool:
    """Whether a kernel with an anchor computes a value, or what pointwise work on it begins with."""
    return any(isinstance(v.owner, AnchorOp) for v in postorder(value, _operands))


def _operands(value: SSAValue) -> Sequence[SSAValue]:
    """Return the operands of the pointwise work that makes a value."""
    return value.owner.operands if isinstance(value.owner, ElementwiseOp) else ()


def _remade(b: Emit, op: ElementwiseOp, turn: Turn) -> SSAValue | None:
    """Append a pointwise operation in the order of the original; None where an operand is not read so."""
    operands: list[SSAValue] = []
    for operand in op.operands:
        if (turned := _turned(b, operand, turn)) is None:
            return None
        operands.append(turned)
    if (dims := _dims(op.result, turn)) is None:
        return None
    return b(op.on(operands, dims))


def _dims(value: SSAValue, turn: Turn) -> Dims | None:
    """Return the extents of a value in the order of the original."""
    if (dims := Shaped.of(value.type).dims) != turn.dims:
        return turn.original(dims)
    found = dict(zip(turn.order, dims, strict=True))
    return tuple(found[axis] for axis in range(len(dims)))


def _turned(b: Emit, value: SSAValue, turn: Turn) -> SSAValue | None:
    """Append an operand in the order of the original; None where that takes a copy."""
    if not isinstance(value.type, TensorType) or not (dims := Shaped.of(value.type).dims):
        return value
    owner = value.owner
    if isinstance(owner, Operation) and dims == turn.dims and (order := _order(owner)) is not None:
        places = dict(zip(turn.order, order, strict=True))
        wanted = _dims(value, turn)
        assert wanted is not None
        return _in_place(b, owner.operands[0], [places[axis] for axis in range(len(dims))], wanted)
    is_condition = Shaped.of(value.type).element_type == i1
    if isinstance(owner, ElementwiseOp) and (is_condition or not _is_computed(value)):
        return _remade(b, owner, turn)
    wanted = turn.original(dims)
    if wanted is None or dims == turn.dims:
        return None
    while Shaped.of(value.type).dims != wanted and isinstance(view := value.owner, ExpandOp):
        value = view.operand
    return _with_ones(b, value, wanted)


def _in_place(b: Emit, value: SSAValue, places: Sequence[int], wanted: Dims) -> SSAValue | None:
    """Append a view of a value whose axis i is axis `places[i]` of the value, if no element moves."""
    moved = [place for place, extent in zip(places, wanted, strict=True) if extent != 1]
    return _with_ones(b, value, wanted) if moved == sorted(moved) else None


def _with_ones(b: Emit, value: SSAValue, wanted: Dims) -> SSAValue:
    """Append a view of a tensor with axes of extent 1 dropped and inserted.

    What is computed is regrouped: its kernel can store it so.
    """
    if Shaped.of(value.type).dims == wanted:
        return value
    if _is_computed(value):
        return b(RegroupOp(value, wanted))
    kept = [axis for axis, extent in enumerate(Shaped.of(value.type).dims) if extent != 1]
    if ones := [axis for axis in range(len(Shaped.of(value.type).dims)) if axis not in kept]:
        value = b(SqueezeOp(value, ones))
    if inserted := [axis for axis, extent in enumerate(wanted) if extent == 1]:
        value = b(ExpandOp(value, inserted))
    return value
