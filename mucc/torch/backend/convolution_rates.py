"""The shares of their bounds that convolutions of cuDNN reach, as they were measured."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from mucc.torch.importer.capture import torch
from mucc.torch.importer.extents import typical

Node = Any

CUDNN, CUDNN_DEEP, CUDNN_FEW = 0.4, 0.65, 0.1
"""The share of its bound that a convolution of cuDNN reaches; with at least `DEEP` channels, and below `FEW`.

On an H200, less the passes of bias and activation: 0.27 to 0.43 with 64 and 128 channels, and with windows
of 1; 0.68 with 256 channels; 0.05 to 0.15 with 3 channels in windows of 7x7 (decision 41).
"""

DEEP, FEW = 256, 8


class Depthwise(NamedTuple):
    """The shares that convolutions with one channel in each group reach in 16 bits."""

    moved: float
    """Of the bandwidth: 3x3 and 5x5 windows of MobileNet-V2 and EfficientNet-B0 on an H100, batch 10."""
    computed: float
    """Of the rate of f32: 7x7 windows of ConvNeXt-B on an H100, batch 32."""


DEPTHWISE = Depthwise(0.3, 0.16)


def depthwise_products(node: Node) -> int | None:
    """Count the products of a convolution of 16-bit floats with one channel in each of several groups.

    None of other calls.
    """
    if node.target is not torch.ops.aten.convolution.default or node.args[6]:
        return None
    weight = node.args[1].meta["val"]
    _, depth, *window = map(typical, weight.shape)
    if typical(node.args[8]) == 1 or depth > 1 or weight.element_size() != 2:
        return None
    return prod(map(typical, node.meta["val"].shape)) * prod(window)


def cudnn_share(node: Node) -> float:
    """Return the share of its bound that a call of cuDNN reaches."""
    place = {"convolution": 1, "convolution_backward": 2}.get(node.target.overloadpacket.__name__)
    if place is None:
        return 1.0
    outputs, channels, *window = map(typical, node.args[place].meta["val"].shape)
    if channels < FEW <= outputs:
        return CUDNN_FEW
    return CUDNN_DEEP if channels >= DEEP and max(window, default=1) > 1 else CUDNN
