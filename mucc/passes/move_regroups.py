"""Move views with other extents behind pointwise work, which then joins the kernel before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.views import VIEWS, ExpandOp, RegroupOp, SqueezeOp
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.dialects.walk import postorder
from mucc.library.extents import multiply


class MoveRegroups(Pass):
    """Do pointwise work in the extents of the kernel before it, and regroup what that stores.

    ```
    %n = mu.mul ... : [B, 8, C/8, P]                %t = mu.regroup %g : [C, 1] -> [8, C/8, 1]
    %m = mu.regroup %n : ... -> [B, C, P]     ->    %u = mu.mul %n, %t : [B, 8, C/8, P]
    %y = mu.mul %m, %g : [B, C, P]                  %y = mu.regroup %u : ... -> [B, C, P]
    ```

    A regroup reads memory, so work behind it would be a kernel of its own. It moves where it merges
    neighbouring axes and the other operands are made of parameters, are regrouped alike, or are stored for
    another regroup of the same extents. Pointwise work on parameters moves behind a regroup that splits axes.
    """

    name = "move-regroups"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = (kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp))
        views = (inner for kernel in kernels for inner in kernel.body.block.ops if isinstance(inner, VIEWS))
        if any(isinstance(view, RegroupOp | ExpandOp | SqueezeOp) for view in views):
            rewrite(op, [_Merge(), _Split(), _Result()])


class Split(NamedTuple):
    """Axes of extents `whole`, each divided into neighbouring axes of extents `parts`; none where it is 1."""

    whole: Dims
    parts: tuple[Dims, ...]

    @staticmethod
    def of(whole: Dims, fine: Dims) -> Split | None:
        """Return how axes are divided into `fine` ones; None where these merge axes as well."""
        parts: list[Dims] = []
        left = list(fine)
        for extent in whole:
            taken: list[Dim] = []
            while left and (not taken or multiply(taken) != extent):
                if extent == 1 and left[0] != 1:
                    break
                taken.append(left.pop(0))
            if multiply(taken) != extent:
                return None
            parts.append(tuple(taken))
        if any(extent != 1 for extent in left):
            return None
        if left:
            if not parts:
                return None
            parts[-1] += tuple(left)
        return Split(whole, tuple(parts))

    def dims(self, dims: Dims) -> Dims | None:
        """Return the extents of a tensor that broadcasts to `whole`, divided alike."""
        first = len(self.whole) - len(dims)
        if first < 0:
            return None
        found: list[Dim] = []
        for dim, whole, parts in zip(dims, self.whole[first:], self.parts[first:], strict=True):
            if dim not in (1, whole):
                return None
            found += parts if dim == whole else [1] * len(parts)
        return tuple(found)


class _Merge(RewritePattern):
    """`f(regroup(x), g)` -> `regroup(f(x, regroup(g)))`, where x is computed and axes are merged."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ElementwiseOp) or (type := op.row_major_type) is None:
            return
        for operand in op.operands:
            view = operand.owner
            if isinstance(view, ExpandOp):
                if not _is_for_results(op.result):
                    continue
            elif not isinstance(view, RegroupOp):
                continue
            if not _is_computed(view.operand):
                continue
            split = Split.of(Shaped.of(type).dims, Shaped.of(view.operand.type).dims)
            if split is None or Shaped.of(operand.type).dims != split.whole:
                continue
            b = Emit()
            if (made := _remade(b, op, split)) is not None:
                moved = (
                    RegroupOp(made, split.whole)
                    if isinstance(view, RegroupOp)
                    else ExpandOp(made, view.axes.get_values())
                )
                rewriter.replace(op, [*b.ops, moved])
                return
            b.discard()


class _Result(RewritePattern):
    """`return expand(x)` -> `return regroup(x)`, where x is computed: a kernel stores that in its extents."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ExpandOp | SqueezeOp) or not isinstance(
            op.operand.owner, ElementwiseOp | AnchorOp
        ):
            return
        if _is_computed(op.operand) and all(isinstance(use.operation, ReturnOp) for use in op.result.uses):
            rewriter.replace(op, RegroupOp(op.operand, Shaped.of(op.result.type).dims))


class _Split(RewritePattern):
    """`regroup(f(x))` -> `f(regroup(x))`, where f is pointwise work on parameters and axes are split."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, RegroupOp) or not isinstance(work := op.operand.owner, ElementwiseOp):
            return
        if _is_computed(op.operand) or all(isinstance(use.operation, ReturnOp) for use in op.result.uses):
            return
        whole, fine = Shaped.of(op.operand.type).dims, Shaped.of(op.result.type).dims
        split = Split.of(whole, fine) if len(fine) > len(whole) else None
        b = Emit()
        if split is not None and (made := _remade(b, work, split)) is not None:
            rewriter.replace(op, b.ops, [made])
        else:
            b.discard()


def _remade(b: Emit, op: ElementwiseOp, split: Split) -> SSAValue | None:
    """Append a pointwise operation on divided operands; None where one cannot be divided in place."""
    operands: list[SSAValue] = []
    for operand in op.operands:
        if (divided := _divided(b, operand, split, op)) is None:
            return None
        operands.append(divided)
    dims = split.dims(Shaped.of(op.result.type).dims)
    return None if dims is None else b(op.on(operands, dims))


def _divided(b: Emit, value: SSAValue, split: Split, user: Operation) -> SSAValue | None:
    """Append a value with its axes divided, for `user`; None where that would store what is not stored."""
    if not isinstance(value.type, TensorType):
        return value
    dims = split.dims(Shaped.of(value.type).dims)
    if dims == () and Shaped.of(value.type).dims:
        # A tensor without axes is a number, by which results do not get a wider dtype.
        dims = (1,) if any(split.parts) else None
    if dims is None:
        return None
    if dims == Shaped.of(value.type).dims:
        return value
    if isinstance(view := value.owner, RegroupOp | ExpandOp) and Shaped.of(view.operand.type).dims == dims:
        return view.operand
    for use in value.uses:
        if isinstance(other := use.operation, RegroupOp) and Shaped.of(other.result.type).dims == dims:
            return other.result if other.is_before_in_block(user) else b(RegroupOp(value, dims))
    is_condition = Shaped.of(value.type).element_type == i1
    if isinstance(value.owner, ElementwiseOp) and (is_condition or not _is_computed(value)):
        return _remade(b, value.owner, split)
    if _is_computed(value):
        return None
    return None if (tensor := _parameter(value)) is None else b(RegroupOp(tensor, dims))


def _parameter(value: SSAValue) -> SSAValue | None:
    """Return the row-major parameter that a value is, or is a view of in the same order of elements."""
    while isinstance(view := value.owner, ExpandOp | SqueezeOp | RegroupOp):
        value = view.operand
    is_in_order = isinstance(value.type, TensorType) and value.type.layout.is_row_major
    return value if is_in_order and not isinstance(value.owner, Operation) else None


def _is_for_results(value: SSAValue) -> bool:
    """Whether a value is returned, or only work of the same extents that is returned uses it."""

    def users(value: SSAValue) -> Sequence[SSAValue]:
        return [r for use in value.uses for r in use.operation.results]

    dims = Shaped.of(value.type).dims
    reached = postorder(value, users)
    return all(isinstance(v.owner, ElementwiseOp) and Shaped.of(v.type).dims == dims for v in reached)


def _is_computed(value: SSAValue) -> bool:
    """Whether a kernel with an anchor computes a value, or pointwise work on what such a kernel computes."""

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, Operation) else ()

    return any(isinstance(v.owner, AnchorOp) for v in postorder(value, operands))
