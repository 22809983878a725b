"""Tensors in another order of axes: images and features by channels, weights of convolutions, heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.layers.forms import Form, Input, tensor

GROUP = "moves"


class Move(NamedTuple):
    """A tensor whose axes are exchanged, and the order."""

    shape: tuple[int, ...]
    order: tuple[int, ...]


MOVES: dict[str, Move] = {
    "image_to_channels_last": Move((64, 3, 512, 512), (0, 2, 3, 1)),
    "image_to_channels_first": Move((64, 512, 512, 3), (0, 3, 1, 2)),
    "features_to_channels_last": Move((32, 256, 56, 56), (0, 2, 3, 1)),
    "features_to_channels_first": Move((32, 56, 56, 256), (0, 3, 1, 2)),
    "filter_to_outputs_first": Move((1024, 3, 3, 1024), (3, 0, 1, 2)),
    "filter_to_outputs_last": Move((1024, 1024, 3, 3), (2, 3, 1, 0)),
    "matrix": Move((8192, 8192), (1, 0)),
    "few_rows": Move((12, 4194304), (1, 0)),
    "heads": Move((8, 4096, 32, 128), (0, 2, 1, 3)),
    "reversed": Move((64, 48, 96, 128), (3, 2, 1, 0)),
}


def _forms() -> Iterator[Form]:
    for dtype in ("f32", "bf16"):
        for name, (shape, order) in MOVES.items():
            yield Form(
                GROUP,
                f"{name}_{dtype}",
                (Input("x", dtype, shape),),
                tensor(dtype, *(shape[axis] for axis in order)),
                f"return permute(x, {order})",
                f"x.permute{order}.contiguous()",
            )


FORMS = tuple(_forms())
