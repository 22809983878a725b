"""Layers of well-known networks, bf16 and tf32, channels last, with a bias and an activation.

Some have x and weights of 8 bits, and a result of bf16: they are held against cuDNN in bf16, as PyTorch has
no convolutions of 8 bits for GPUs.
"""

from __future__ import annotations

from bench.conv.forms import Conv, ConvForm, form

LAYERS: dict[str, Conv] = {
    "resnet50_stem_7x7": Conv((32, 3, 224, 224), 64, (7, 7), 2, 3),
    "resnet50_2_reduce": Conv((32, 256, 56, 56), 64, (1, 1)),
    "resnet50_2_3x3": Conv((32, 64, 56, 56), 64, (3, 3), 1, 1),
    "resnet50_2_expand": Conv((32, 64, 56, 56), 256, (1, 1)),
    "resnet50_3_3x3_stride2": Conv((32, 128, 56, 56), 128, (3, 3), 2, 1),
    "resnet50_3_skip": Conv((32, 256, 56, 56), 512, (1, 1), 2),
    "resnet50_3_3x3": Conv((32, 128, 28, 28), 128, (3, 3), 1, 1),
    "resnet50_4_3x3": Conv((32, 256, 14, 14), 256, (3, 3), 1, 1),
    "resnet50_4_expand": Conv((32, 256, 14, 14), 1024, (1, 1)),
    "resnet50_5_3x3": Conv((32, 512, 7, 7), 512, (3, 3), 1, 1),
    "resnet50_5_reduce": Conv((32, 2048, 7, 7), 512, (1, 1)),
    "convnext_stem_4x4": Conv((32, 3, 224, 224), 96, (4, 4), 4),
    "convnext_1_7x7": Conv((32, 96, 56, 56), 96, (7, 7), 1, 3, groups=96),
    "convnext_3_7x7": Conv((32, 384, 14, 14), 384, (7, 7), 1, 3, groups=384),
    "convnext_down_2x2": Conv((32, 96, 56, 56), 192, (2, 2), 2),
    "unet_first_3x3": Conv((8, 3, 512, 512), 64, (3, 3), 1, 1),
    "unet_1_3x3": Conv((8, 64, 512, 512), 64, (3, 3), 1, 1),
    "unet_3_3x3": Conv((8, 256, 128, 128), 256, (3, 3), 1, 1),
    "unet_5_3x3": Conv((8, 1024, 32, 32), 1024, (3, 3), 1, 1),
    "unet_up_2x2": Conv((8, 256, 128, 128), 128, (2, 2), 2, transposed=True),
    "unet_last_1x1": Conv((8, 64, 512, 512), 32, (1, 1)),
    "efficientnet_stem_3x3": Conv((32, 3, 224, 224), 32, (3, 3), 2, 1),
    "efficientnet_2_3x3": Conv((32, 96, 112, 112), 96, (3, 3), 2, 1, groups=96),
    "efficientnet_3_5x5": Conv((32, 144, 56, 56), 144, (5, 5), 2, 2, groups=144),
    "efficientnet_5_expand": Conv((32, 80, 14, 14), 480, (1, 1)),
    "efficientnet_5_5x5": Conv((32, 480, 14, 14), 480, (5, 5), 1, 2, groups=480),
    "resnext_3_3x3": Conv((32, 256, 28, 28), 256, (3, 3), 1, 1, groups=32),
    "video_3x3x3": Conv((8, 64, 16, 56, 56), 64, (3, 3, 3), 1, 1),
    "audio_9": Conv((32, 256, 8192), 256, (9,), 1, 4),
}


def _group(conv: Conv) -> str:
    """The figures that count a layer: those of few channels and of groups have their own."""
    if conv.x[1] < 32:
        return "first"
    return "nhwc" if conv.groups == 1 else "grouped"


ACTIVATIONS = {"convnext": ("gelu({})", "F.gelu({})"), "efficientnet": ("silu({})", "F.silu({})")}
RELU = ("relu({})", "torch.relu({})")


def network_form(name: str, conv: Conv, dtype: str) -> ConvForm:
    """Return a layer with its bias and the activation of its network."""
    behind = ACTIVATIONS.get(name.partition("_")[0], RELU)
    return form(_group(conv), f"{name}_{dtype}", conv, dtype=dtype, channels_last=True, behind=behind)


EIGHT = (
    "resnet50_2_reduce",
    "resnet50_2_3x3",
    "resnet50_3_3x3",
    "resnet50_3_3x3_stride2",
    "resnet50_4_3x3",
    "resnet50_4_expand",
    "unet_1_3x3",
    "unet_3_3x3",
    "unet_5_3x3",
    "unet_up_2x2",
    "video_3x3x3",
)
"""Layers with 8 bits, too."""


def narrow_form(name: str, factors: str) -> ConvForm:
    """Return a layer whose x and weights have 8 bits."""
    return form(
        "eight",
        f"{name}_{factors}",
        LAYERS[name],
        dtype="bf16",
        factors=factors,
        channels_last=True,
        behind=RELU,
    )


FORMS = (
    *(network_form(name, conv, dtype) for dtype in ("bf16", "f32") for name, conv in LAYERS.items()),
    *(narrow_form(name, factors) for factors in ("e4m3", "s8") for name in EIGHT),
)
