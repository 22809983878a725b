"""Divide long sums of convolutions with few results into shares."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.conv.parted import PartFactors
from mucc.kernels.conv.shares import Divide, KeepOutputsLast
from mucc.target import DEFAULT_TARGET, get_target


@dataclass(frozen=True)
class DivideSums(Pass):
    """Divide the channels of x among groups of a convolution whose window is much larger than its result.

    Such are gradients of weights: their channels are the batch of the training step. Groups have work for all
    multiprocessors, and a reduction adds up their sums, always in the same order. Convolutions whose kernel
    divides its sums itself (`positions`) have the channels of their result last.

    ```
    %y = mu.conv %x, %w              %v = mu.reshape (mu.permute (mu.reshape %w))
          : [C, 32, ..], [O, 32, ..]  ->  %p = mu.conv %x, %v groups 32 : [C, 32*O, ..]
                                     %y = mu.reduce sum (mu.reshape %p) axes [2]
    ```
    """

    name = "divide-sums"
    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        facts = get_target(self.target).facts
        rewrite(op, [PartFactors(facts), Divide(facts), KeepOutputsLast(facts)])
