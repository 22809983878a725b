"""Compute pointwise work in the order of axes in which its results are read: channels last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.views import ExpandOp, PermuteOp, SqueezeOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.rewriting import Emit
from mucc.dialects.walk import postorder


class MoveChannels(RewritePattern):
    """`permute(f(conv(x), b[:, None, None]), (0, 2, 3, 1))` -> `f(permute(conv(x), (0, 2, 3, 1)), b)`.

    It moves where `begins` is true of an operation that the work is done on, and all that read the work
    read it with channels last.
    """

    def __init__(self, begins: Callable[[Operation], bool]):
        self.begins = begins

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ElementwiseOp) or not isinstance(op.result.type, TensorType):
            return
        users = _users_with_channels_last(op)
        if not users or not follows(op.result, self.begins):
            return
        b = Emit()
        if (made := _moved(b, op, Shaped.of(op.result.type).dims)) is None:
            b.discard()
            return
        rewriter.insert(b.ops)
        for user in users:
            rewriter.replace(user, [], [made])
        rewriter.erase(op)


class MoveConcatenations(RewritePattern):
    """`permute(concat(x, y, axis=1), (0, 2, 3, 1))` -> `concat(permute(x, (0, 2, 3, 1)), ..., axis=3)`.

    It moves where `begins` is true of an operation that an operand is, or is pointwise work on.
    """

    def __init__(self, begins: Callable[[Operation], bool]):
        self.begins = begins

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.name != "mu.concat":
            return
        from mucc.dialects.mu.ops.shape import ConcatOp

        assert isinstance(op, ConcatOp)
        users = _users_with_channels_last(op)
        if not users or not any(follows(x, self.begins) for x in op.inputs):
            return
        b, rank = Emit(), len(Shaped.of(op.result.type).dims)
        parts = [_permuted(b, x, rank) for x in op.inputs]
        made = ConcatOp(parts, {0: 0, 1: rank - 1}.get(axis := op.axis.value.data, axis - 1))
        made.location = op.location
        b(made)
        rewriter.insert(b.ops)
        for user in users:
            rewriter.replace(user, [], [made.result])
        rewriter.erase(op)


def follows(value: SSAValue, begins: Callable[[Operation], bool]) -> bool:
    """Whether pointwise work of one shape leads from a beginning to a value."""
    dims = Shaped.of(value.type).dims

    def sources(value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner
        return owner.operands if isinstance(owner, ElementwiseOp) else ()

    return any(
        isinstance(v.owner, Operation) and begins(v.owner) and Shaped.of(v.type).dims == dims
        for v in postorder(value, sources)
    )


def _users_with_channels_last(op: Operation) -> list[Operation]:
    """Return the operations that read a result, if all of them put its channels last."""
    users = [use.operation for use in op.results[0].uses]
    return users if all(puts_channels_last(user) for user in users) else []


def puts_channels_last(op: Operation) -> bool:
    """Whether an operation puts the second axis last, and leaves the others in order."""
    order = tuple(op.order.get_values()) if isinstance(op, PermuteOp) else ()
    return len(order) > 2 and order == (0, *range(2, len(order)), 1)


def _puts_channels_second(op: PermuteOp) -> bool:
    order = tuple(op.order.get_values())
    return order == (0, len(order) - 1, *range(1, len(order) - 1))


def _moved(b: Emit, op: ElementwiseOp, space: Dims) -> SSAValue | None:
    """Append pointwise work with channels last; None where an operand cannot be read so."""
    if (dims := _last_dims(Shaped.of(op.result.type).dims, space)) is None:
        return None
    operands: list[SSAValue] = []
    for operand in op.operands:
        if (value := _last(b, operand, space)) is None:
            return None
        operands.append(value)
    return b(op.on(operands, dims))


def _last_dims(dims: Dims, space: Dims) -> Dims | None:
    """Return the extents, with channels last, of what broadcasts to a space; None for scalars."""
    missing = len(space) - len(dims)
    if dims == space or missing < 0:
        return (dims[0], *dims[2:], dims[1]) if dims == space else None
    whole = (*(1,) * missing, *dims)
    moved = (whole[0], *whole[2:], whole[1])
    used = [axis for axis, extent in enumerate(moved) if extent != 1]
    return moved[used[0] :] if used else None


def _permuted(b: Emit, value: SSAValue, rank: int) -> SSAValue:
    """Append a view with channels last of a value of so many axes."""
    if isinstance(view := value.owner, PermuteOp) and _puts_channels_second(view):
        return view.operand
    return b(PermuteOp(value, (0, *range(2, rank), 1)))


def _last(b: Emit, value: SSAValue, space: Dims) -> SSAValue | None:
    """Append a value with channels last; None where that would not be a view of it."""
    if not isinstance(value.type, TensorType):
        return value
    shaped = Shaped.of(value.type)
    dims, wanted = shaped.dims, _last_dims(shaped.dims, space)
    if wanted is None:
        return None
    work = value.owner
    if isinstance(work, ElementwiseOp) and (dims != space or shaped.element_type == i1):
        return _moved(b, work, space)
    given = value
    while isinstance(view := value.owner, ExpandOp) and dims != space:
        value = view.operand
        if not isinstance(value.type, TensorType) or Shaped.of(value.type).dims == wanted:
            return value
    if shaped.element_type == i1:
        return None
    if len(dims) == len(space) and len(wanted) == len(dims):
        return _permuted(b, given, len(space))
    left = Shaped.of(value.type).dims
    ones = [axis for axis, extent in enumerate(left) if extent == 1]
    if tuple(extent for extent in left if extent != 1) != wanted or not ones:
        return None
    return b(SqueezeOp(value, ones))
