"""Bring `mu` operations into canonical form and erase dead ones."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.rewriting import Pass, erase_dead, rewrite


class MuCanonicalize(Pass):
    """Apply the dialect's canonicalisation patterns, keeping source locations."""

    name = "mu-canonicalize"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        from mucc.dialects.mu.canonicalization import PATTERNS

        rewrite(op, PATTERNS)
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                erase_dead(kernel.body)
