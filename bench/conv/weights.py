"""Gradients of weights of layers of networks, x and gradients with channels last."""

from __future__ import annotations

from bench.conv.forms import Conv, ConvForm
from bench.conv.networks import LAYERS
from bench.layers.forms import Input, tensor

NAMES = (
    "resnet50_2_3x3",
    "resnet50_3_3x3",
    "resnet50_3_3x3_stride2",
    "resnet50_4_3x3",
    "resnet50_5_3x3",
    "convnext_down_2x2",
    "unet_3_3x3",
)


def weights_form(name: str, conv: Conv, dtype: str) -> ConvForm:
    """Return the gradient of the weights of a layer: a convolution by the gradient of its result."""
    stride, pad = conv.each(conv.stride), conv.each(conv.pad)
    behind = [
        (p - 1) * s + k - e - low
        for p, s, k, e, low in zip(conv.places, stride, conv.window, conv.x[2:], pad, strict=True)
    ]
    batch, channels, *extents = conv.x
    swapped = "permute({}, (3, 0, 1, 2))"
    x = f"pad({swapped.format('x')}, {pad}, {tuple(behind)})"
    step = f", dilation={stride}" if max(stride) > 1 else ""
    ours = f"permute(conv({x}, {swapped.format('g')}{step}), (1, 0, 2, 3))"
    sizes = f"{conv.weights}, g.permute(0, 3, 1, 2), {stride}, {pad}"
    return ConvForm(
        "weights",
        f"{name}_{dtype}",
        (
            Input("x", dtype, (batch, *extents, channels)),
            Input("g", dtype, (batch, *conv.places, conv.outputs)),
        ),
        tensor(dtype, *conv.weights),
        f"return {ours}",
        f"torch.nn.grad.conv2d_weight(x.permute(0, 3, 1, 2), {sizes})",
        has_product=True,
        kind=conv.kind,
        flops=conv.flops,
        channels_last=True,
        batched=(),
    )


FORMS = tuple(weights_form(name, LAYERS[name], dtype) for dtype in ("bf16", "f32") for name in NAMES)
