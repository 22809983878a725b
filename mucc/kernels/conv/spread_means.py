"""Replace means of transposed convolutions by products of sums of their operands."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.conv.transposed_means import SpreadMean


@dataclass(frozen=True)
class SpreadMeans(Pass):
    """Average transposed convolutions without computing them.

    Each element of x adds to all positions that its window covers, so the sum over positions is that of
    products of two sums. Elements whose window reaches beyond the result have taps left out: sums are of
    parts of x, one for each set of taps that the same elements bring in.

    ```
    %y = mu.conv_transpose %x, %w            %s = mu.reduce sum %x axes [2, 3]
    %m = mu.reduce mean %y axes [2, 3]  ->   %t = mu.reduce sum %w axes [2, 3]
                                             %p = mu.mul (expand %s axes [2]), (expand %t axes [0])
                                             %m = mu.mul (mu.reduce sum %p axes [1]), 1 / count
    ```
    """

    name = "spread-means"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [SpreadMean()])
