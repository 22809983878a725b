"""Single convolutions without a bias, at the sizes of KernelBench's level 1: f32 in tf32, NCHW."""

from __future__ import annotations

from bench.conv.forms import Conv, ConvForm, form
from bench.layers.forms import Input, tensor

GROUP = "level1"

CONVOLUTIONS: dict[str, Conv] = {
    "alexnet_11x11_stride4": Conv((256, 3, 224, 224), 96, (11, 11), 4, 2),
    "conv3d_3x3x3": Conv((16, 3, 64, 64, 64), 64, (3, 3, 3)),
    "conv2d_3x3_512x1024": Conv((8, 64, 512, 1024), 128, (3, 3)),
    "conv2d_5x7": Conv((8, 64, 512, 256), 128, (5, 7)),
    "transposed2d_3x3": Conv((8, 64, 1024, 1024), 64, (3, 3), transposed=True),
    "transposed3d_3x5x7": Conv((16, 32, 16, 32, 64), 16, (3, 5, 7), transposed=True),
    "conv3d_3x3x1": Conv((16, 3, 256, 256, 10), 64, (3, 3, 1)),
    "conv3d_3x5x7": Conv((16, 3, 64, 64, 64), 64, (3, 5, 7)),
    "transposed3d_3x3x3": Conv((8, 48, 64, 64, 64), 48, (3, 3, 3), transposed=True),
    "conv2d_5x9": Conv((8, 32, 512, 512), 64, (5, 9)),
    "conv2d_3x3_1024x1024": Conv((16, 16, 1024, 1024), 128, (3, 3)),
    "transposed1d_3": Conv((64, 128, 65536), 128, (3,), transposed=True),
    "transposed2d_3x7": Conv((8, 64, 512, 512), 64, (3, 7), transposed=True),
    "conv3d_3x5x7_shallow": Conv((8, 3, 16, 128, 128), 64, (3, 5, 7)),
    "conv1d_3": Conv((32, 64, 131072), 128, (3,)),
    "transposed3d_3x5x5": Conv((16, 32, 64, 64, 64), 64, (3, 5, 5), transposed=True),
    "transposed2d_3x5": Conv((64, 64, 128, 256), 128, (3, 5), transposed=True),
    "transposed3d_3x3x3_96": Conv((8, 48, 96, 96, 96), 24, (3, 3, 3), transposed=True),
    "transposed2d_3x3_512x1024": Conv((8, 32, 512, 1024), 32, (3, 3), transposed=True),
    "transposed3d_3x5x7_stride2_groups4": Conv(
        (8, 32, 12, 24, 48), 32, (3, 5, 7), 2, (1, 2, 3), groups=4, transposed=True, output_pad=1
    ),
    "transposed3d_3x3x3_stride2_groups4": Conv(
        (4, 32, 32, 64, 128), 32, (3, 3, 3), 2, 1, groups=4, transposed=True
    ),
    "transposed1d_5_dilation3": Conv((32, 32, 131072), 64, (5,), dilation=3, transposed=True),
    "transposed2d_3x5_stride2x3_groups4": Conv(
        (16, 32, 128, 256), 64, (3, 5), (2, 3), (1, 2), (2, 1), groups=4, transposed=True
    ),
    "conv1d_3_stride3_dilation4": Conv((64, 64, 524280), 128, (3,), 3, dilation=4),
    "transposed3d_3x3x3_stride2_dilation2": Conv(
        (16, 32, 16, 32, 32), 64, (3, 3, 3), 2, 1, 2, transposed=True
    ),
    "transposed2d_3x7_pad": Conv((8, 32, 512, 1024), 32, (3, 7), 1, (1, 3), transposed=True),
    "transposed1d_3_stride2_dilation2": Conv((16, 32, 131072), 64, (3,), 2, 1, 2, transposed=True),
    "conv2d_5x9_dilation2x3": Conv((8, 32, 512, 512), 64, (5, 9), 1, (2, 4), (2, 3)),
    "transposed2d_3x3_stride5_dilation2": Conv((16, 32, 64, 128), 64, (3, 3), 5, 1, 2, transposed=True),
    "depthwise_3x3": Conv((16, 64, 512, 512), 64, (3, 3), groups=64),
    "depthwise_3x1": Conv((64, 8, 512, 512), 8, (3, 1), groups=8),
    "depthwise_3x3_256x512": Conv((64, 128, 256, 512), 128, (3, 3), groups=128),
    "depthwise_3x7": Conv((32, 128, 128, 256), 128, (3, 7), groups=128),
    "pointwise": Conv((16, 64, 1024, 1024), 128, (1, 1)),
}


def separable(x: tuple[int, ...], outputs: int) -> ConvForm:
    """A depthwise convolution, and a pointwise one behind it."""
    depthwise, pointwise = Conv(x, x[1], (3, 3), 1, 1, groups=x[1]), Conv(x, outputs, (1, 1))
    inputs = (
        Input("x", "f32", depthwise.x),
        Input("w", "f32", depthwise.weights, "filter"),
        Input("v", "f32", pointwise.weights, "filter"),
    )
    return ConvForm(
        GROUP,
        "depthwise_separable",
        inputs,
        tensor("f32", *pointwise.result),
        f"return conv(conv(x, w, pad=1, groups={x[1]}), v)",
        f"F.conv2d(F.conv2d(x, w, None, padding=1, groups={x[1]}), v)",
        has_product=True,
        kind="separable",
        flops=depthwise.flops + pointwise.flops,
    )


FORMS = (
    *(form(GROUP, name, conv, bias=False) for name, conv in CONVOLUTIONS.items()),
    separable((16, 64, 512, 512), 128),
)
