"""Move permutations behind pointwise work on products, and undo those that work stands between."""

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
from mucc.dialects.mu.ops.normalisation import AlongAxisOp, LogSumExpOp, NormalizeOp
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, VarianceOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, RegroupOp, SqueezeOp, TransposeOp, inverse
from mucc.dialects.mu.rules import broadcast
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
    if dims == turn.dims and isinstance(owner, Operation) and _order(owner) is not None:
        return _restored(b, value, turn)
    is_condition = Shaped.of(value.type).element_type == i1
    if isinstance(owner, ElementwiseOp) and (is_condition or not _is_computed(value)):
        return _remade(b, owner, turn)
    return None if dims == turn.dims else _spread(b, value, turn)


def _restored(b: Emit, value: SSAValue, turn: Turn) -> SSAValue | None:
    """Append what a permutation to the other order reads; None where that is in yet another order."""
    if not isinstance(owner := value.owner, Operation) or (order := _order(owner)) is None:
        return None
    places = dict(zip(turn.order, order, strict=True))
    wanted = _dims(value, turn)
    assert wanted is not None
    return _in_place(b, owner.operands[0], [places[axis] for axis in range(len(turn.order))], wanted)


def _spread(b: Emit, value: SSAValue, turn: Turn) -> SSAValue | None:
    """Append a tensor that is repeated along some axes, for the order of the original."""
    if (wanted := turn.original(Shaped.of(value.type).dims)) is None:
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


class UndoPermutes(Pass):
    """Compute in the order in which a tensor lies what its axes are permuted for before, and back behind.

    ```
    %q = mu.permute %x order [0, 2, 3, 1]                 %v = mu.expand %w axes [1, 2]
    %n = mu.normalize standard %q axes [3]           ->   %n = mu.normalize standard %x axes [1]
    %y = mu.mul %n, %w : [N, H, W, C] by [C]              %z = mu.mul %n, %v : [N, C, H, W] by [C, 1, 1]
    %z = mu.permute %y order [0, 3, 1, 2]
    ```

    Between the two are pointwise work, norms and softmaxes, and reductions whose axes are kept, which nothing
    else reads. Each operand of all extents is permuted alike; others can be read in the other order. So are
    reductions of what is permuted, and pointwise work before them: their result is permuted, if need be.
    """

    name = "undo-permutes"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [_Undo(), _Reduce()])


class _Undo(RewritePattern):
    """`permute(f(permute(x)))` -> `f(x)`, where the second restores the order."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (order := _order(op)) is None:
            return
        b = Emit()
        between = _Between(b, Turn(tuple(inverse(order)), Shaped.of(op.operands[0].type).dims))
        if (value := between.remade(op.operands[0])) is not None and between.work and between.is_read_by(op):
            rewriter.replace(op, b.ops, [value])
        else:
            b.discard()


class _Reduce(RewritePattern):
    """`reduce(f(permute(x)))` -> `permute(reduce(f(x)))`, where x lies in its own order in memory.

    The permutation of the result is left out where the axes that are kept have their order.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReduceOp | VarianceOp | LogSumExpOp | ArgReduceOp):
            return
        dims = Shaped.of(op.operand.type).dims
        orders = (_order_in_memory(v) for v in postorder(op.operand, _worked) if _dims_of(v) == dims)
        if (order := next((o for o in orders if o is not None), None)) is None:
            return
        b = Emit()
        between = _Between(b, Turn(order, dims))
        if between.remade(op.operand) is None or not between.is_read_by(op, also_views=True):
            b.discard()
            return
        value = between.reduced(op)
        gone = [op.axis.value.data] if isinstance(op, ArgReduceOp) else op.axes.get_values()
        kept = [order[axis] for axis in range(len(dims)) if axis not in gone]
        if kept != sorted(kept):
            value = b(PermuteOp(value, [sorted(kept).index(axis) for axis in kept]))
        rewriter.replace(op, b.ops, [value])


def _worked(value: SSAValue) -> Sequence[SSAValue]:
    """Return the operands of the pointwise work, the norm or the softmax that makes a value."""
    owner = value.owner
    return owner.operands if isinstance(owner, ElementwiseOp | NormalizeOp | AlongAxisOp) else ()


def _dims_of(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims if isinstance(value.type, TensorType) else ()


def _order_in_memory(value: SSAValue) -> tuple[int, ...] | None:
    """Return the order of a permutation of a tensor in row-major order; None for other values."""
    if not isinstance(owner := value.owner, Operation) or (order := _order(owner)) is None:
        return None
    type = owner.operands[0].type
    return order if isinstance(type, TensorType) and type.layout.kind.data == "row_major" else None


class _Between:
    """The work between two permutations, done in the order of the first one's operand."""

    def __init__(self, b: Emit, turn: Turn):
        self.b, self.turn = b, turn
        self.whole = tuple(turn.dims[axis] for axis in inverse(turn.order))
        self.made: dict[SSAValue, SSAValue] = {}
        self.work: list[Operation] = []
        """The operations that are replaced."""
        self.views: list[Operation] = []
        """The permutations that they read."""

    def remade(self, value: SSAValue) -> SSAValue | None:
        """Append what computes a value in the other order; None where an operand is not read so."""
        for each in postorder(value, self._needs):
            if (turned := self._turned(each)) is None:
                return None
            self.made[each] = turned
        return self.made[value]

    def is_read_by(self, op: Operation, also_views: bool = False) -> bool:
        """Whether only the work and `op` read its values, and with `also_views` what is permuted for it."""
        within = {op, *self.work}
        read = [*self.work, *(self.views if also_views else ())]
        return all(use.operation in within for one in read for result in one.results for use in result.uses)

    def _needs(self, value: SSAValue) -> Sequence[SSAValue]:
        reduction = self._reduction(value)
        return _worked(value) if reduction is None else reduction.operands

    def _reduction(self, value: SSAValue) -> ReduceOp | VarianceOp | LogSumExpOp | None:
        """Return the reduction of all extents whose axes a value keeps, with extent 1."""
        if not isinstance(view := value.owner, ExpandOp):
            return None
        reduction = view.operand.owner
        if not isinstance(reduction, ReduceOp | VarianceOp | LogSumExpOp) or view.axes != reduction.axes:
            return None
        return reduction if Shaped.of(reduction.operand.type).dims == self.turn.dims else None

    def _turned(self, value: SSAValue) -> SSAValue | None:
        owner = value.owner
        if not isinstance(value.type, TensorType) or not (dims := Shaped.of(value.type).dims):
            return value
        if isinstance(owner, ElementwiseOp):
            self.work.append(owner)
            operands = [self.made[operand] for operand in owner.operands]
            space = broadcast([Shaped.of(v.type).dims for v in operands if isinstance(v.type, TensorType)])
            turned = self.b(owner.on(operands, space))
            # Operands may have lost axes of extent 1 that became the first ones.
            return _with_ones(self.b, turned, self.whole) if dims == self.turn.dims else turned
        if isinstance(owner, NormalizeOp | AlongAxisOp) and dims == self.turn.dims:
            self.work.append(owner)
            return self._normalized(owner)
        if (reduction := self._reduction(value)) is not None and isinstance(owner, Operation):
            self.work += [owner, reduction]
            return self.b(ExpandOp(self.reduced(reduction), self._axes(reduction.axes.get_values())))
        if dims != self.turn.dims:
            return _spread(self.b, value, self.turn)
        if isinstance(owner, Operation):
            self.views.append(owner)
        return _restored(self.b, value, self.turn)

    def _normalized(self, op: NormalizeOp | AlongAxisOp) -> SSAValue:
        operand = self.made[op.operand]
        if isinstance(op, NormalizeOp):
            return self.b(NormalizeOp(op.kind.data, operand, self._axes(op.axes.get_values()), op.eps))
        return self.b(type(op)(operand, self.turn.order[op.axis.value.data]))

    def reduced(self, op: ReduceOp | VarianceOp | LogSumExpOp | ArgReduceOp) -> SSAValue:
        """Append a reduction of what was remade."""
        operand = self.made[op.operand]
        if isinstance(op, ArgReduceOp):
            return self.b(ArgReduceOp(op.kind.data, operand, self.turn.order[op.axis.value.data]))
        axes = self._axes(op.axes.get_values())
        match op:
            case ReduceOp():
                return self.b(ReduceOp(op.kind, operand, axes))
            case VarianceOp():
                return self.b(VarianceOp(operand, axes, op.correction))
            case LogSumExpOp():
                return self.b(LogSumExpOp(operand, axes))

    def _axes(self, axes: Sequence[int]) -> list[int]:
        return sorted(self.turn.order[axis] for axis in axes)
