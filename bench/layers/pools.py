"""Pools of well-known networks, in f32 and bf16."""

from __future__ import annotations

from collections.abc import Iterator

from bench.layers.forms import Form, Input, tensor

GROUP = "pools"

SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, str]] = {
    "resnet": (
        (256, 64, 112, 112),
        (256, 64, 56, 56),
        "max_pool(x, 3, stride=2, pad=1)",
        "F.max_pool2d(x, 3, 2, 1)",
    ),
    "vgg": ((128, 64, 224, 224), (128, 64, 112, 112), "max_pool(x, 2)", "F.max_pool2d(x, 2)"),
    "inception": (
        (256, 288, 35, 35),
        (256, 288, 35, 35),
        "avg_pool(x, 3, stride=1, pad=1)",
        "F.avg_pool2d(x, 3, 1, 1)",
    ),
    "densenet": ((256, 128, 56, 56), (256, 128, 28, 28), "avg_pool(x, 2)", "F.avg_pool2d(x, 2)"),
    "video": ((16, 64, 16, 112, 112), (16, 64, 8, 56, 56), "max_pool(x, 2)", "F.max_pool3d(x, 2)"),
    "channels_last": (
        (256, 112, 112, 64),
        (256, 64, 56, 56),
        "max_pool(permute(x, (0, 3, 1, 2)), 3, stride=2, pad=1)",
        "F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1)",
    ),
    "global": ((512, 2048, 7, 7), (512, 2048, 1, 1), "avg_pool(x, 7)", "F.avg_pool2d(x, 7)"),
    "relu_behind": (
        (256, 64, 112, 112),
        (256, 64, 56, 56),
        "relu(max_pool(x, 3, stride=2, pad=1) * 0.5 + 0.1)",
        "F.relu(F.max_pool2d(x, 3, 2, 1) * 0.5 + 0.1)",
    ),
}


def _pools() -> Iterator[Form]:
    for dtype in ("f32", "bf16"):
        for name, (shape, to, expr, reference) in SHAPES.items():
            x = Input("x", dtype, shape)
            yield Form(GROUP, f"{name}_{dtype}", (x,), tensor(dtype, *to), f"return {expr}", reference)


FORMS = tuple(_pools())
