"""Convolutions and what follows them, at the sizes of KernelBench's level 2: f32 in tf32, NCHW."""

from __future__ import annotations

from typing import NamedTuple

from bench.conv.forms import Conv, ConvForm, form
from bench.layers.forms import Input

GROUP = "level2"


class Layer(NamedTuple):
    """A convolution with a bias, and what is computed of it, `{}`, in the language and in PyTorch.

    Each of `vectors` names a further input with an element for each channel of the result. With `residual`
    there is an input r of the result's shape. `reduced` says that one channel is left.
    """

    conv: Conv
    ours: str
    theirs: str
    vectors: str = ""
    residual: bool = False
    reduced: bool = False

    def form(self, name: str) -> ConvForm:
        """Return the form of a program with the layer."""
        batch, outputs, *places = self.conv.result
        more = [Input(vector, "f32", (outputs,)) for vector in self.vectors]
        if self.residual:
            more.append(Input("r", "f32", self.conv.result))
        result = (batch, 1, *places) if self.reduced else None
        return form(GROUP, name, self.conv, behind=(self.ours, self.theirs), more=more, result=result)


def _doubling(x: tuple[int, ...], outputs: int, size: int) -> Conv:
    """A transposed convolution that doubles the extents, or with an even window makes them one longer."""
    return Conv(x, outputs, (size,) * (len(x) - 2), 2, 1, transposed=True, output_pad=1)


LAYERS: dict[str, Layer] = {
    "relu_bias": Layer(
        Conv((128, 64, 128, 128), 128, (3, 3)),
        "relu({}) + s[:, None, None]",
        "torch.relu({}) + s[:, None, None]",
        "s",
    ),
    "transposed_bias_clamp_scale_clamp_divide": Layer(
        _doubling((128, 64, 128, 128), 64, 3),
        "clamp(clamp({} + s[:, None, None], 0, 1) * 2, 0, 1) / 2",
        "torch.clamp(torch.clamp({} + s[:, None, None], 0.0, 1.0) * 2.0, 0.0, 1.0) / 2.0",
        "s",
    ),
    "mish_mish": Layer(Conv((64, 64, 256, 256), 128, (3, 3)), "mish(mish({}))", "F.mish(F.mish({}))"),
    "transposed_subtract_tanh": Layer(
        _doubling((32, 64, 256, 256), 64, 4),
        "tanh({} - s[:, None, None])",
        "torch.tanh({} - s[:, None, None])",
        "s",
    ),
    "conv3d_relu_leaky_gelu_sigmoid_bias": Layer(
        Conv((64, 8, 32, 64, 64), 32, (3, 3, 3)),
        "sigmoid(gelu(leaky_relu(relu({}), slope=0.01))) + s[:, None, None, None]",
        "torch.sigmoid(F.gelu(F.leaky_relu(torch.relu({}), 0.01))) + s[:, None, None, None]",
        "s",
    ),
    "transposed3d_residual_multiply": Layer(
        _doubling((16, 32, 16, 32, 32), 64, 3),
        "h = {} return (h + s[:, None, None, None] + h) * h + h",
        "h = {}; return (h + s[:, None, None, None] + h) * h + h",
        "s",
    ),
    "transposed3d_add_hardswish": Layer(
        _doubling((128, 32, 16, 16, 16), 64, 3),
        "h = {} + r return h * hardswish(h)",
        "h = {} + r; return h * F.hardswish(h)",
        residual=True,
    ),
    "minimum_add_multiply": Layer(
        Conv((128, 64, 128, 128), 128, (3, 3)),
        "(min({}, 0.5) + s[:, None, None]) * 2",
        "(torch.clamp({}, max=0.5) + s[:, None, None]) * 2.0",
        "s",
    ),
    "scale_minimum_of_channels": Layer(
        Conv((64, 64, 256, 256), 128, (3, 3)),
        "min({} * 2, axis=1, keepdims=on)",
        "torch.amin({} * 2.0, 1, keepdim=True)",
        reduced=True,
    ),
    "conv3d_mish_tanh": Layer(
        Conv((16, 32, 32, 64, 64), 64, (3, 3, 3)), "tanh(mish({}))", "torch.tanh(F.mish({}))"
    ),
    "conv3d_scale_tanh_multiply_sigmoid": Layer(
        Conv((128, 3, 16, 64, 64), 16, (3, 3, 3)),
        "sigmoid(tanh({} * s[:, None, None, None]) * t[:, None, None, None])",
        "torch.sigmoid(torch.tanh({} * s[:, None, None, None]) * t[:, None, None, None])",
        "st",
    ),
    "multiply_leaky_relu_gelu": Layer(
        Conv((64, 64, 256, 256), 64, (3, 3)),
        "gelu(leaky_relu({} * s[:, None, None], slope=0.01))",
        "F.gelu(F.leaky_relu({} * s[:, None, None], 0.01))",
        "s",
    ),
    "relu_hardswish": Layer(
        Conv((128, 8, 128, 128), 64, (3, 3)),
        "h = relu({}) return h * clamp((h + 3) / 6, 0, 1)",
        "h = torch.relu({}); return h * torch.clamp((h + 3) / 6, 0, 1)",
    ),
    "subtract_subtract_mish": Layer(
        Conv((128, 8, 256, 256), 64, (3, 3)), "mish({} - 0.5 - 0.2)", "F.mish({} - 0.5 - 0.2)"
    ),
}

FORMS = tuple(layer.form(name) for name, layer in LAYERS.items())
