"""What convolutions of cuDNN reach of their bounds, as measured in networks on an H100."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from mucc.torch.importer.capture import torch
from mucc.torch.importer.extents import typical
from mucc.torch.importer.partition import Node

CUDNN, CUDNN_DEEP, CUDNN_ONE, CUDNN_TRANSPOSED = 0.45, 0.7, 0.9, 0.5
"""The share of its bound that a convolution of cuDNN reaches, beside what a call takes at least; with `DEEP`
channels of the result; with windows of 1, which are products of matrices; and where it is transposed.

On an H100 (`bench.models --profiles`, U-Net and ResNet-50 with channels last): 86 us for 3x3 from 64 to 64
channels at 8x256x256, 171 from 128 to 64, 728 for twelve layers from 128 channels on, 29 for 256 channels at
64x14x14; 37 to 43 us for 1x1 of 64 and 256 channels at 64x56x56; 22 to 69 us for transposed ones.
"""

CUDNN_FEW, CUDNN_SMALL, CUDNN_NARROW = 0.1, 0.27, 0.35
"""The same below `FEW` channels of x, and there with windows of up to `SMALL` elements; below `FEW` channels
of the result: 388 us for the stem of ResNet-50, 79 us for 3x3 from 3 to 64 channels, with padding of 55 and
9 us beside, 68 us for 1x1 from 64 to 2 channels at 8x256x256 (likewise)."""

DEEP, FEW, SMALL = 128, 8, 16


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
    name = node.target.overloadpacket.__name__
    place = {"convolution": 1, "convolution_backward": 2}.get(name)
    if place is None:
        return 1.0
    outputs, channels, *window = map(typical, node.args[place].meta["val"].shape)
    # The strides come two places behind the weights of either, and whether it is transposed another three.
    strides, is_transposed = node.args[place + 2], node.args[place + 5]
    if is_transposed:
        outputs, channels = channels, outputs
    if channels < FEW <= outputs:
        return CUDNN_SMALL if prod(window) <= SMALL else CUDNN_FEW
    if outputs < FEW:
        return CUDNN_NARROW
    if prod(window) == 1:
        is_product = name == "convolution" and max(strides, default=1) == 1
        return CUDNN_ONE if is_product else CUDNN
    if is_transposed:
        return CUDNN_TRANSPOSED
    return CUDNN_DEEP if outputs >= DEEP else CUDNN
