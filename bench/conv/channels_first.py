"""Layers of networks in bf16 with channels first, as programs of PyTorch have them, and blocks of layers.

x has to be copied for most kernels: `matrices` read it where it lies, others between layers are stored with
their channels last.
"""

from __future__ import annotations

import math

from bench.conv.forms import Conv, ConvForm, form
from bench.conv.networks import LAYERS, RELU
from bench.layers.forms import Input, tensor

GROUP = "nchw"

SINGLE: dict[str, Conv] = {
    "resnet50_3_reduce": Conv((32, 512, 28, 28), 128, (1, 1)),
    "resnet50_3_expand": Conv((32, 128, 28, 28), 512, (1, 1)),
    "pointwise_256": Conv((8, 256, 128, 128), 256, (1, 1)),
    "pointwise_narrow": Conv((32, 16, 112, 112), 64, (1, 1)),
    "pointwise_groups": Conv((32, 256, 56, 56), 256, (1, 1), groups=2),
}
SHARED = (
    "resnet50_2_reduce",
    "resnet50_2_expand",
    "resnet50_2_3x3",
    "resnet50_3_skip",
    "resnet50_3_3x3",
    "resnet50_4_expand",
    "resnet50_5_reduce",
    "unet_last_1x1",
)
"""Layers that are also timed with channels last."""


def bottleneck(name: str, x: tuple[int, int, int, int], inner: int) -> ConvForm:
    """Return two blocks of a residual network, of three convolutions each."""
    outer = x[1]
    shapes = ((inner, outer, 1, 1), (inner, inner, 3, 3), (outer, inner, 1, 1))
    weights = [Input(f"w{i}", "bf16", shapes[i % 3], "filter") for i in range(6)]

    def block(x: str, first: int, conv: str, relu: str, pad: str) -> str:
        inside = f"{relu}({conv}({relu}({conv}({x}, w{first})), w{first + 1}, {pad}))"
        return f"{relu}({conv}({inside}, w{first + 2}) + {x})"

    ours, theirs = ("conv", "relu", "pad=1"), ("F.conv2d", "torch.relu", "padding=1")
    flops = 2 * 2 * x[0] * math.prod(x[2:]) * (2 * outer * inner + 9 * inner * inner)
    return ConvForm(
        GROUP,
        name,
        (Input("x", "bf16", x), *weights),
        tensor("bf16", *x),
        f"h = {block('x', 0, *ours)}\n    return {block('h', 3, *ours)}",
        f"(lambda h: {block('h', 3, *theirs)})({block('x', 0, *theirs)})",
        has_product=True,
        kind="block",
        flops=flops,
    )


FORMS = (
    *(form(GROUP, f"{n}_bf16", c, dtype="bf16", behind=RELU) for n, c in SINGLE.items()),
    *(form(GROUP, f"{n}_bf16", LAYERS[n], dtype="bf16", behind=RELU) for n in SHARED),
    bottleneck("bottleneck_2_bf16", (32, 256, 56, 56), 64),
    bottleneck("bottleneck_4_bf16", (32, 1024, 14, 14), 256),
)
