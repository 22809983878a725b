"""Share moments: a norm of a convolution's result takes its statistics from moments of tiles."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.rewriting import Pass
from mucc.kernels.conv.moments import share
from mucc.target import DEFAULT_TARGET


@dataclass(frozen=True)
class ShareMoments(Pass):
    """Let kernels of convolutions store moments of their tiles for the norms behind them.

    ```
    %y = mu.stage "s0" conv { .. }              %y, %p = mu.stage "s0" conv { .. mu.partial_moments }
    %z = mu.stage "z" reduction {        ->     %m, %r = mu.stage "z_moments" reduction { sums of %p }
      sum %y, sum of squared distances          %z = mu.stage "z" map { (%y - %m) * %r }
      (%y - mean) * rsqrt(..) }
    ```

    Without that, the norm's kernel reads %y to find its statistics, and holds it or reads it once more.
    """

    name = "share-moments"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                share(kernel, self.target)
