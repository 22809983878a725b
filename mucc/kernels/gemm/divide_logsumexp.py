"""Divide logsumexp: reduce long rows of a product by way of the logsumexps of its tiles."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.gemm.logsumexp_parts import DivideIntoParts
from mucc.target import DEFAULT_TARGET


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

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        pinned = {s.kernel for s in op.body.block.ops if isinstance(s, ScheduleOp)}
        kernels = [k for k in op.body.block.ops if isinstance(k, KernelOp) and k.sym_name not in pinned]
        rewrite(op, [DivideIntoParts(self.target, {k.sym_name.data for k in kernels})])
