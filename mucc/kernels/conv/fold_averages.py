"""Fold average pools into the weights of the convolution before them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.conv.averaged import Averages
from mucc.target import DEFAULT_TARGET, get_target


@dataclass(frozen=True)
class FoldAverages(Pass):
    """Fold average pools into the f32 weights of the convolution before them, where that should be faster.

    A mean of neighbours of a convolution is one convolution with the weights averaged over the places that
    they take: the window is larger, and fewer results are computed. That holds for pools without padding,
    and for transposed convolutions whose stride is that of the pool, which become convolutions of stride 1.

    ```
    %y = mu.conv %x, %w stride [1, 1]               %p = mu.pad %w low [0, 0, 1, 0] ..
    %z = mu.pool avg %y size [2, 2] stride [2, 2]  ->   .. (shifted weights are added up, and divided by 4)
                                                    %z = mu.conv %x, %v stride [2, 2]
    ```
    """

    name = "fold-averages"
    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [Averages(get_target(self.target).facts)])
