"""Find attention that is written out."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.rewriting import Pass, rewrite


class FormAttention(Pass):
    """Make attention of a product, a softmax and a product.

    ```
    %s = mu.matmul %q, %kt             %s = mu.scores %q, %k
    %t = mu.tanh %s                    %t = mu.tanh %s
    %w = mu.softmax %t axis 1     ->   %y = mu.scored_attention %q, %k, %v scores %t
    %y = mu.matmul %w, %v
    ```

    `f(q @ k.T) @ v` is attention without softmax where f is more than a factor. Products that are written
    several times are one, and so are operands of attention, log-sum-exps and gradients. Sums of exponentials
    and the attention whose kernel stores them move together. Keys and values that are gathered from pages are
    read where they lie.
    """

    name = "form-attention"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = [kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp)]
        names = {inner.name for kernel in kernels for inner in kernel.body.block.ops}
        # Few programs have such operations, so what rewrites them is loaded where there is one.
        may_be_written = any(sum(isinstance(i, MatmulOp) for i in k.body.block.ops) > 1 for k in kernels)
        if may_be_written:
            from mucc.kernels.attention.sharing import share_products
            from mucc.kernels.attention.written import Written

            for kernel in kernels:
                share_products(kernel.body.block)
            rewrite(op, [Written()])
        if names & {"mu.attention_logsumexp", "mu.attention_gradient"}:
            from mucc.kernels.attention.sharing import move_sums, share_operands

            for kernel in kernels:
                share_operands(kernel.body.block)
                move_sums(kernel.body.block)
        if "mu.gather" in names and (may_be_written or "mu.attention" in names):
            from mucc.kernels.attention.paged import Paged

            rewrite(op, [Paged()])
