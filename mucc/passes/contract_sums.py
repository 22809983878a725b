"""Contract sums: a sum of products that broadcast against each other becomes a product of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.rewriting import Emit, Pass, rewrite

LEAST = 8
"""Rows, columns or terms below which a reduction reads little more than a product does."""


class _Contract(RewritePattern):
    """`sum(a[:, :, None] * b[None, :, :], axis=1)` -> `matmul(a, b, compute=f32)`."""

    def __init__(self, always: bool):
        self.always = always

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        from mucc.passes.broadcast_sums import FLOATS, BroadcastSum

        if not isinstance(op, ReduceOp):
            return
        dtypes = (*FLOATS, "s8", "u8") if self.always else FLOATS
        found = BroadcastSum.of(op, self.always, dtypes)
        if found is None or (not self.always and (found.least() or LEAST) < LEAST):
            return
        compute = Compute.TF32X3 if self.always else Compute.F32
        emit = Emit()
        try:
            found.contraction(emit, ComputeAttr(compute))
        except TypeRuleError:
            emit.discard()
            return
        rewriter.replace(op, emit.ops)


@dataclass(frozen=True)
class ContractSums(Pass):
    """Make products of matrices of sums of products whose factors broadcast against each other.

    ```
    %a = mu.expand %x axes [2]                  %y = mu.matmul f32 %x, %w
    %b = mu.expand %w axes [0]          ->
    %p = mu.mul %a, %b
    %y = mu.reduce sum %p axes [1]
    ```

    Products are exact f32, as they are in a reduction. Sums over one operand only, and those of factors of
    one shape, stay: these are bound by memory. So do integers, and products that others read. With `always`,
    for bounds, all are contracted, by the fastest arithmetic that is as exact.
    """

    name = "contract-sums"

    always: bool = False

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = (kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp))
        inner = (inner for kernel in kernels for inner in kernel.body.block.ops)
        if any(isinstance(i, ReduceOp) and isinstance(i.operand.owner, e.MulOp | e.DivOp) for i in inner):
            rewrite(op, [_Contract(self.always)])
