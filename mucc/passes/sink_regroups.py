"""Compute what is pointwise behind a norm over groups before these are merged, so that it joins the norm."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import Rewriter

from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.views import AXIS_VIEWS, BroadcastOp, ExpandOp, RegroupOp, SqueezeOp
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.dialects.walk import postorder
from mucc.library.extents import multiply


class _Sink(RewritePattern):
    """`regroup(y) * w` -> `regroup(y * regroup(w))`, where y is computed from reductions of its own space."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ElementwiseOp):
            return
        view = next((v.owner for v in op.operands if isinstance(v.owner, RegroupOp)), None)
        if view is None or not view.result.has_one_use() or not _is_normalised(view.operand):
            return
        space, dims = Shaped.of(view.operand.type).dims, Shaped.of(op.result.type).dims
        parts = _parts(space, dims)
        if parts is None or Shaped.of(view.result.type).dims != dims:
            return
        b = Emit()
        operands: dict[SSAValue, SSAValue] = {view.result: view.operand}
        for value in op.operands:
            if value not in operands:
                new = _split(b, value, dims, parts)
                if new is None:
                    return
                operands[value] = new
        result = b(op.clone(operands))
        element = Shaped.of(op.result.type).element_type
        result = Rewriter.replace_value_with_new_type(result, TensorType.of(space, element))
        b(RegroupOp(result, dims))
        rewriter.replace(op, b.ops)


class _Expanded(RewritePattern):
    """A result `expand(y) * 2` -> `expand(y * 2)`, where y is computed from a reduction."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ElementwiseOp):
            return
        lone = _lone_tensor(op)
        view = lone.owner if lone is not None and _is_returned(op.result) else None
        if not isinstance(view, ExpandOp):
            return
        value = view.operand
        if not view.result.has_one_use() or not value.has_one_use() or not _reductions(value):
            return
        b = Emit()
        result = b(op.clone({view.result: value}))
        type = TensorType.of(Shaped.of(value.type).dims, Shaped.of(op.result.type).element_type)
        b(ExpandOp(Rewriter.replace_value_with_new_type(result, type), view.axes.get_values()))
        rewriter.replace(op, b.ops)


def _lone_tensor(op: ElementwiseOp) -> SSAValue | None:
    """Return the operand of an operation that is no scalar, if it is the only one."""
    tensors = [v for v in op.operands if Shaped.of(v.type).dims]
    return tensors[0] if len(tensors) == 1 else None


def _is_returned(value: SSAValue) -> bool:
    """Whether all uses of a value are results of the kernel, or compute such results from it alone."""
    users = [use.operation for use in value.uses]
    return all(
        isinstance(user, ReturnOp)
        or (isinstance(user, ElementwiseOp) and _lone_tensor(user) is not None and _is_returned(user.result))
        for user in users
    )


class _Unsqueezed(RewritePattern):
    """A result `expand(y)` -> `regroup(y)`, where y is computed from a reduction: its kernel stores that."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ExpandOp) or not isinstance(op.result.type, TensorType):
            return
        value, is_result = op.operand, all(isinstance(use.operation, ReturnOp) for use in op.result.uses)
        type = value.type
        if not is_result or not value.has_one_use() or not op.result.type.layout.is_row_major:
            return
        if isinstance(type, TensorType) and type.layout.is_row_major and _reductions(value):
            rewriter.replace(op, RegroupOp(value, op.result.type.dims))


def _reductions(value: SSAValue) -> list[ReduceOp]:
    """Return the reductions whose results a value is computed from by pointwise work and inserted axes."""
    kinds = (ElementwiseOp, ExpandOp, SqueezeOp, BroadcastOp)

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, kinds) else ()

    return [v.owner for v in postorder(value, operands) if isinstance(v.owner, ReduceOp)]


def _is_normalised(value: SSAValue) -> bool:
    """Whether a value is computed from a reduction of its own space."""
    space = Shaped.of(value.type).dims
    found = (Shaped.of(reduction.operand.type).dims for reduction in _reductions(value))
    return isinstance(value.owner, ElementwiseOp) and space in found


def _parts(space: Dims, dims: Dims) -> list[Dims] | None:
    """Return the axes of a space of which each of `dims` is made; None where they do not line up."""
    parts: list[Dims] = []
    first = 0
    for dim in dims:
        last = next((k for k in range(first + 1, len(space) + 1) if multiply(space[first:k]) == dim), None)
        if last is None:
            return None
        parts.append(space[first:last])
        first = last
    # Axes of one element at the end belong to the last part.
    if any(extent != 1 for extent in space[first:]):
        return None
    return [*parts[:-1], (*parts[-1], *space[first:])] if parts else None


def _split(b: Emit, value: SSAValue, dims: Dims, parts: Sequence[Dims]) -> SSAValue | None:
    """Return a value over the axes of a space, from one over `dims`, aligned at the right.

    None where it is computed, so that it would have to be stored, or has other extents.
    """
    given, inserted = Shaped.of(value.type).dims, tuple[int, ...]()
    if not given:
        return value
    if isinstance(expanded := value.owner, ExpandOp):
        value, inserted = expanded.operand, expanded.axes.get_values()
    type = value.type
    if isinstance(value.owner, (ElementwiseOp, *AXIS_VIEWS)) or not isinstance(type, TensorType):
        return None
    first, shape, new = len(dims) - len(given), list[Dim](), list[int]()
    for axis, (own, dim, part) in enumerate(zip(given, dims[first:], parts[first:], strict=True)):
        if own not in (1, dim):
            return None
        if axis in inserted:
            new += range(len(shape), len(shape) + len(part))
        shape += part if own == dim else [1] * len(part)
    base = tuple(extent for i, extent in enumerate(shape) if i not in new)
    if base != type.dims:
        if not type.layout.is_row_major:
            return None
        value = b(RegroupOp(value, base))
    return b(ExpandOp(value, new)) if new else value


class SinkRegroups(Pass):
    """Compute what is pointwise over merged groups before they are merged.

    ```
    %z = mu.regroup %y : [N, 8, 8, H] -> [N, 64, H]         %v = mu.regroup %w : [64, 1] -> [8, 8, 1]
    %o = mu.mul %z, %w : [64, 1]                    ->      %p = mu.mul %y, %v
                                                            %o = mu.regroup %p
    ```

    The scale and the shift of a group norm then are in the kernel that normalises. A result of a reduction with
    axes of extent 1 inserted is a regrouped one, too.
    """

    name = "sink-regroups"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = (kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp))
        views = (RegroupOp, ExpandOp)
        if any(isinstance(inner, views) for kernel in kernels for inner in kernel.body.block.ops):
            rewrite(op, [_Sink(), _Expanded(), _Unsqueezed()])
