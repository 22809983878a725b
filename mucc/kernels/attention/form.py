"""Find attention that is written out."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

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
    """

    name = "form-attention"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = (kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp))
        # Few programs have a softmax, so what finds it is loaded where there is one.
        if any(inner.name == "mu.softmax" for kernel in kernels for inner in kernel.body.block.ops):
            from mucc.kernels.attention.written import Written

            rewrite(op, [Written()])
