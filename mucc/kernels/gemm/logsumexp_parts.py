"""The pattern of `divide-logsumexp`: which logsumexp of a product's rows is one of parts of them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.normalisation import LogSumExpOp
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.mu.value_bounds import bounds_of
from mucc.dialects.rewriting import Emit
from mucc.kernels.gemm.column_groups import is_large
from mucc.kernels.gemm.scheduling import gemm_target

WIDTHS = (128, 64)
"""Columns of a part, of which the columns of a product are a multiple: a thread has 32 or 16 of a row."""


@dataclass
class DivideIntoParts(RewritePattern):
    """Divide a logsumexp of long rows, in `kernels`, where `target` has kernels that find those of parts."""

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
