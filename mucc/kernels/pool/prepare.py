"""Prepare pools: channels are last where results are read so."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mucc.dialects.rewriting import Pass, rewrite
from mucc.kernels.channels import ChannelsLast


class _Keep(ChannelsLast):
    """`permute(max_pool(x), (0, 2, 3, 1))` -> `max_pool(x) channels_last`."""

    def applies(self, op: Operation) -> bool:
        return op.name == "mu.pool"


@dataclass(frozen=True)
class PreparePools(Pass):
    """Fold a permutation to channels last into the pool before it.

    ```
    %0 = mu.pool max %x : [N, C, P, Q]
    %1 = mu.permute %0 order [0, 2, 3, 1]      ->      %1 = mu.pool max %x channels_last : [N, P, Q, C]
    ```
    """

    name = "prepare-pools"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [_Keep()])
