"""Divide logsumexp: that of long rows of a product becomes one of the parts that tiles find."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.normalisation import LogSumExpOp
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.mu.value_bounds import bounds_of
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.kernels.gemm.join_rows import is_large
from mucc.kernels.gemm.scheduling import gemm_target

WIDTHS = (128, 64)
"""Columns of a part, of which the columns of a product are a multiple: a thread has 32 or 16 of a row."""


@dataclass(frozen=True)
class DivideLogSumExp(Pass):
    """Find the logsumexp of a product's long rows from that of parts of them.

    ```
                                                         %r = mu.regroup %h : [M, N] -> [M, N / 128, 128]
    %s = mu.logsumexp %h axes [1] : [M, N] -> [M]   ->   %p = mu.logsumexp %r axes [2]
                                                         %s = mu.logsumexp %p axes [1]
    ```

    exp(logsumexp(p)) is the sum of exp over a part p, so that the logarithm of the sum over all parts is that
    of the sum over all elements. Each part has a maximum of its own, and nothing overflows; parts of which
    all elements are -infinity have that as result, and add nothing. `join-rows` makes the parts a work of the
    product's epilogue, which then stores one number for 128 instead of all of them. It remains as it is where
    the product is stored anyway, where its elements are bounded (no maximum is needed then), and where a
    schedule is given for the kernel.
    """

    name = "divide-logsumexp"

    target: str = "sm_90a"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        pinned = {s.kernel for s in op.body.block.ops if isinstance(s, ScheduleOp)}
        kernels = [k for k in op.body.block.ops if isinstance(k, KernelOp) and k.sym_name not in pinned]
        inner = [inner for kernel in kernels for inner in kernel.body.block.ops]
        if any(isinstance(i, LogSumExpOp) for i in inner):
            rewrite(op, [_Divide(self.target, {k.sym_name.data for k in kernels})])


@dataclass
class _Divide(RewritePattern):
    target: str
    kernels: set[str]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, LogSumExpOp) or not isinstance(kernel := op.parent_op(), KernelOp):
            return
        *rows, columns = Shaped.of(op.operand.type).dims
        if kernel.sym_name.data not in self.kernels or list(op.axes.get_values()) != [len(rows)]:
            return
        if not isinstance(columns, int) or columns < 2 * WIDTHS[0] or bounds_of(op.operand).is_finite:
            return
        width = next((w for w in WIDTHS if columns % w == 0), None)
        product = _product(op.operand)
        if width is None or product is None or not self._has_kernels(product):
            return
        b = Emit()
        parts = b(RegroupOp(op.operand, (*rows, columns // width, width)))
        found = b(LogSumExpOp(parts, [len(rows) + 1]))
        rewriter.replace(op, [*b.ops, LogSumExpOp(found, [len(rows)])])

    def _has_kernels(self, product: MatmulOp) -> bool:
        """Whether the target has kernels that reduce parts of a product's rows, for as large a one."""
        lhs, rhs = product.lhs.type, product.rhs.type
        if (
            not isinstance(lhs, TensorType)
            or not isinstance(rhs, TensorType)
            or product.scales
            or product.mixed
        ):
            return False
        if lhs.is_sparse or rhs.is_sparse:
            return False
        along_k = lhs.is_contiguous(lhs.rank - 1), rhs.is_contiguous(rhs.rank - 2)
        if not gemm_target(self.target).reduces_groups(product.compute.data.value, *along_k):
            return False
        return is_large(Shaped.of(product.result.type).dims)


def _product(value: SSAValue) -> MatmulOp | None:
    """Return the product of which a value is computed, if nothing else needs one of the values in between."""
    dims = Shaped.of(value.type).dims
    while value.has_one_use():
        match owner := value.owner:
            case MatmulOp():
                return owner
            case ElementwiseOp():
                inner = [
                    v
                    for v in owner.operands
                    if Shaped.of(v.type).dims == dims and isinstance(v.owner, Operation)
                ]
                if len(set(inner)) != 1:
                    return None
                (value,) = set(inner)
            case _:
                return None
    return None
