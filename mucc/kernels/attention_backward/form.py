"""Find gradients of attention that a kernel computes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.attention_backward.gradients import Gradients
from mucc.target import DEFAULT_TARGET


@dataclass(frozen=True)
class FormAttentionBackward(Pass):
    """Let gradients of attention read sums of rows instead of attention's result.

    ```
                                        %s = mu.reduce sum (%dy * %y) axes [1]
    %q = mu.attention_gradient     ->   %q = mu.attention_backward
        query .., %lse, %y                  query .., %lse, %s
    ```
    """

    name = "form-attention-backward"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [Gradients(self.target)])
