"""Ways to compute a convolution: when each is legal, and what it costs."""

from __future__ import annotations

from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.conv.op import Geometry, Strategy

FEW = 8
"""Channels of a group up to which most of a tile of a product would be empty."""


def choose(op: ConvolutionOp, geometry: Geometry) -> Strategy:
    """Return the strategy for a convolution."""
    if geometry.groups == 1:
        return Strategy.TILES
    channels = int(Shaped.of(op.operand.type).dims[1]) // geometry.groups
    outputs = int(op.result_dims[1]) // geometry.groups
    return Strategy.DIRECT if max(channels, outputs) <= FEW else Strategy.TILES
