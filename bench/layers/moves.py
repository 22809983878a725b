"""Tensors in another order of axes, alone and in pointwise work: images by channels, weights, heads."""

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


class Work(NamedTuple):
    """Work on an operand x whose axes are exchanged, and on one y that has the result's order."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    ours: str
    theirs: str


WORK: dict[str, Work] = {
    "features_relu": Work((32, 256, 56, 56), (0, 2, 3, 1), "relu({x} * 2)", "F.relu({x} * 2)"),
    "features_residual": Work((32, 256, 56, 56), (0, 2, 3, 1), "{x} + y", "{x} + y"),
    "image_scaled": Work((64, 512, 512, 3), (0, 3, 1, 2), "{x} * 0.5 - 1", "{x} * 0.5 - 1"),
    "matrix_softmax": Work((4096, 8192), (1, 0), "softmax({x})", "{x}.softmax(-1)"),
    "matrix_exp": Work((8192, 8192), (1, 0), "exp({x})", "{x}.exp()"),
}


def _sum(dtype: str) -> Form:
    """Return sums over the channels of an NCHW tensor, written on its permutation to NHWC."""
    return Form(
        GROUP,
        f"channel_sum_{dtype}",
        (Input("x", dtype, (32, 256, 56, 56)),),
        tensor("f32", 32, 56, 56),
        "return sum(permute(x, (0, 2, 3, 1)), axis=-1)",
        "x.permute(0, 2, 3, 1).float().sum(-1)",
    )


def _norm(dtype: str) -> Form:
    """Return a layer norm over the channels of an NCHW tensor, written on its permutation to NHWC."""
    channels, shape = 256, (32, 256, 56, 56)
    return Form(
        GROUP,
        f"channel_norm_{dtype}",
        (Input("x", dtype, shape), Input("w", dtype, (channels,)), Input("b", dtype, (channels,))),
        tensor(dtype, *shape),
        "return permute(layer_norm(permute(x, (0, 2, 3, 1))) * w + b, (0, 3, 1, 2))",
        f"F.layer_norm(x.permute(0, 2, 3, 1), ({channels},), w, b).permute(0, 3, 1, 2)",
    )


def _forms() -> Iterator[Form]:
    for dtype in ("f32", "bf16"):
        yield from (_norm(dtype), _sum(dtype))
        for name, (shape, order) in MOVES.items():
            yield Form(
                GROUP,
                f"{name}_{dtype}",
                (Input("x", dtype, shape),),
                tensor(dtype, *(shape[axis] for axis in order)),
                f"return permute(x, {order})",
                f"x.permute{order}.contiguous()",
            )
        for name, (shape, order, ours, theirs) in WORK.items():
            result = tuple(shape[axis] for axis in order)
            given = (Input("x", dtype, shape), Input("y", dtype, result))
            yield Form(
                GROUP,
                f"{name}_{dtype}",
                given if "y" in ours else given[:1],
                tensor(dtype, *result),
                f"return {ours.format(x=f'permute(x, {order})')}",
                f"({theirs.format(x=f'x.permute{order}')}).contiguous()",
            )


FORMS = tuple(_forms())
