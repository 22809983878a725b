"""Associate products: multiply three matrices in the order that needs less work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f16
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.passes.product_work import LEAST, is_plain, work
from mucc.passes.values import dims_of

GAIN = 2
"""How many times less work another order has: its first product is rounded as that of the other."""


class Chain(NamedTuple):
    """Three matrices that are multiplied, the first two first or the last two."""

    a: SSAValue
    b: SSAValue
    c: SSAValue
    is_first: bool

    @staticmethod
    def of(op: MatmulOp, emit: Emit) -> Chain | None:
        """Return the chain that ends with a product; None where its operands are no products."""
        for value, is_first in ((op.lhs, True), (op.rhs, False)):
            inner = value.owner
            is_turned = isinstance(inner, TransposeOp)
            if isinstance(inner, TransposeOp):
                value, inner = inner.operand, inner.operand.owner
            if not isinstance(inner, MatmulOp) or not is_plain(inner) or inner.compute != op.compute:
                continue
            if any(not v.has_one_use() for v in (value, op.operands[0 if is_first else 1])):
                continue
            a, b = inner.lhs, inner.rhs
            if is_turned:
                a, b = emit(TransposeOp(b)), emit(TransposeOp(a))
            return Chain(a, b, op.rhs, True) if is_first else Chain(op.lhs, a, b, False)
        return None

    @property
    def work(self) -> tuple[int, int]:
        """The multiplications of this order and of the other one; none for batches."""
        if any(len(dims_of(v)) != 2 for v in self[:3]):
            return 0, 0
        m, k = dims_of(self.a)
        n, p = dims_of(self.c)
        left, right = work(m, k, n) + work(m, n, p), work(k, n, p) + work(m, k, p)
        return (left, right) if self.is_first else (right, left)


class _Associate(RewritePattern):
    """`(a @ b) @ c` -> `a @ (b @ c)`, or the other way round. Products of matrices are associative.

    In f16 sums of many terms could be beyond the largest number, where those of the written order are not.
    """

    def __init__(self, always: bool):
        self.always = always

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp) or not is_plain(op):
            return
        emit = Emit()
        if (chain := Chain.of(op, emit)) is None:
            return
        now, then = chain.work
        is_f16 = Shaped.of(op.result.type).element_type == f16
        if now <= then if self.always else now < max(LEAST, GAIN * then) or is_f16:
            emit.discard()
            return
        a, b, c, is_first = chain
        if is_first:
            product = MatmulOp(a, emit(MatmulOp(b, c, op.compute)), op.compute)
        else:
            product = MatmulOp(emit(MatmulOp(a, b, op.compute)), c, op.compute)
        rewriter.replace(op, [*emit.ops, product])


@dataclass(frozen=True)
class AssociateProducts(Pass):
    """Multiply three matrices in the order that needs less work, where that is at most half.

    ```
    %t = mu.matmul %q, %k : [N, D] @ [D, N]           %t = mu.matmul %k, %v : [D, N] @ [N, D]
    %y = mu.matmul %t, %v : [N, N] @ [N, D]     ->    %y = mu.matmul %q, %t : [N, D] @ [D, D]
    ```

    With `always`, for bounds, the order is that of least work.
    """

    name = "associate-products"

    always: bool = False

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [_Associate(self.always)])
