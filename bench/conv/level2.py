"""Convolutions and what follows them, at the sizes of KernelBench's level 2: f32 in tf32, NCHW.

Names, sizes and operations are those of its 63 problems with a convolution, in their order. Norms of
the batch are as in training, as there.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.conv.forms import Conv, ConvForm, form
from bench.layers.forms import Input

GROUP = "level2"


class Layer(NamedTuple):
    """A convolution with a bias, and what is computed of it, `{}`, in the language and in PyTorch.

    Each of `vectors` names a further input with an element for each channel of the result, `<s>` in what is
    computed, and each of `scalars` one of a single element. With `residual` there is an input r of the
    convolution's shape. `result` are the extents of the result where they are not the convolution's. With
    `pooled` x is averaged over windows of that extent before. `mixes` says that elements of the batch depend
    on each other.
    """

    conv: Conv
    ours: str
    theirs: str
    vectors: str = ""
    scalars: str = ""
    residual: bool = False
    result: tuple[int, ...] | None = None
    bias: bool = True
    pooled: int = 1
    mixes: bool = False

    def form(self, name: str) -> ConvForm:
        """Return the form of a program with the layer."""
        more = [Input(vector, "f32", (self.conv.outputs,)) for vector in self.vectors]
        more += [Input(scalar, "f32", (1,)) for scalar in self.scalars]
        if self.residual:
            more.append(Input("r", "f32", self.conv.result))
        behind = (self._spread(self.ours), self._spread(self.theirs))
        return form(
            GROUP,
            name,
            self.conv,
            bias=self.bias,
            behind=behind,
            more=more,
            result=self.result,
            pooled=self.pooled,
            mixes=self.mixes,
        )

    def _spread(self, text: str) -> str:
        """Write vectors along channels as they are broadcast."""
        for vector in self.vectors:
            text = text.replace(f"<{vector}>", f"{vector}[:{', None' * self.conv.spatial}]")
        return text


def _doubling(x: tuple[int, ...], outputs: int, size: int, more: int = 1) -> Conv:
    """A transposed convolution of stride 2 and padding 1, by default one that doubles the extents."""
    return Conv(x, outputs, (size,) * (len(x) - 2), 2, 1, transposed=True, output_pad=more)


def _spreading(x: tuple[int, ...], outputs: int, size: int, pad: int = 0) -> Conv:
    """A transposed convolution of stride 1."""
    return Conv(x, outputs, (size,) * (len(x) - 2), 1, pad, transposed=True)


def _dense(x: tuple[int, ...], outputs: int, size: int = 3, pad: int = 0) -> Conv:
    """A convolution of stride 1."""
    return Conv(x, outputs, (size,) * (len(x) - 2), 1, pad)


MEDIUM = _dense((128, 64, 128, 128), 128)
LARGE = _dense((64, 64, 256, 256), 128)
FEW = _dense((128, 8, 128, 128), 64)
WIDE = _dense((128, 8, 256, 256), 64)
SHALLOW = _doubling((128, 3, 16, 32, 32), 16, 3, 0)

LAYERS: dict[str, Layer] = {
    "relu_bias": Layer(
        MEDIUM,
        "relu({}) + <s>",
        "torch.relu({}) + <s>",
        vectors="s",
    ),
    "transposed_bias_clamp_scale_clamp_divide": Layer(
        _doubling((128, 64, 128, 128), 64, 3),
        "clamp(clamp({} + <s>, 0, 1) * 2, 0, 1) / 2",
        "torch.clamp(torch.clamp({} + <s>, 0.0, 1.0) * 2.0, 0.0, 1.0) / 2.0",
        vectors="s",
    ),
    "transposed3d_sum_layer_norm_avg_pool_gelu": Layer(
        _doubling((32, 32, 16, 32, 32), 64, 3),
        "gelu(avg_pool(layer_norm({} + t) * g + c, 2))",
        "F.gelu(F.avg_pool3d(F.layer_norm({} + t, g.shape, g, c), 2))",
        vectors="gc",
        scalars="t",
        result=(32, 64, 16, 32, 32),
    ),
    "mish_mish": Layer(
        LARGE,
        "mish(mish({}))",
        "F.mish(F.mish({}))",
    ),
    "transposed_subtract_tanh": Layer(
        _doubling((32, 64, 256, 256), 64, 4),
        "tanh({} - <s>)",
        "torch.tanh({} - <s>)",
        vectors="s",
    ),
    "conv3d_softmax_max_pool_max_pool": Layer(
        _dense((128, 3, 16, 32, 32), 16),
        "max_pool(max_pool(softmax({}, axis=1), 2), 2)",
        "F.max_pool3d(F.max_pool3d(torch.softmax({}, 1), 2), 2)",
        result=(128, 16, 3, 7, 7),
    ),
    "conv3d_relu_leaky_gelu_sigmoid_bias": Layer(
        _dense((64, 8, 32, 64, 64), 32),
        "sigmoid(gelu(leaky_relu(relu({}), slope=0.01))) + <s>",
        "torch.sigmoid(F.gelu(F.leaky_relu(torch.relu({}), 0.01))) + <s>",
        vectors="s",
    ),
    "conv3d_divide_max_pool_global_pool_bias_sum": Layer(
        _dense((128, 8, 16, 64, 64), 16),
        "sum(mean(max_pool({} / 2, 2), axis=(2, 3, 4), keepdims=on) + <s>, axis=1)",
        "torch.sum(F.adaptive_avg_pool3d(F.max_pool3d({} / 2.0, 2), 1) + <s>, 1)",
        vectors="s",
        result=(128, 1, 1, 1),
    ),
    "transposed_max_pool_hardtanh_mean_tanh": Layer(
        _spreading((128, 64, 256, 256), 64, 3, 1),
        "tanh(mean(hardtanh(max_pool({}, 2)), axis=(2, 3), keepdims=on))",
        "torch.tanh(torch.mean(F.hardtanh(F.max_pool2d({}, 2, 2)), (2, 3), keepdim=True))",
        result=(128, 64, 1, 1),
    ),
    "transposed_batch_norm_tanh_max_pool_group_norm": Layer(
        _spreading((512, 64, 32, 32), 128, 5, 1),
        "group_norm(max_pool(tanh(batch_norm({}) * <g> + <c>), 2), 8) * <p> + <q>",
        "F.group_norm(F.max_pool2d(torch.tanh(F.batch_norm({}, None, None, g, c, True)), 2, 2), 8, p, q)",
        vectors="gcpq",
        result=(512, 128, 17, 17),
        mixes=True,
    ),
    "transposed3d_mean_add_softmax_tanh_scale": Layer(
        _spreading((16, 16, 32, 128, 128), 64, 3, 1),
        "tanh(softmax(mean({}, axis=2, keepdims=on) + <s>, axis=1)) * 2",
        "torch.tanh(torch.softmax({}.mean(2, keepdim=True) + <s>, 1)) * 2.0",
        vectors="s",
        result=(16, 64, 1, 128, 128),
    ),
    "transposed3d_batch_norm_subtract": Layer(
        _doubling((16, 16, 16, 32, 32), 32, 3, 0),
        "h = batch_norm({}) * <g> + <c> return h - mean(h, axis=(2, 3, 4), keepdims=on)",
        "h = F.batch_norm({}, None, None, g, c, True); return h - torch.mean(h, (2, 3, 4), keepdim=True)",
        vectors="gc",
        mixes=True,
    ),
    "transposed_mish_add_hardtanh_scale": Layer(
        _doubling((128, 64, 128, 128), 64, 3),
        "hardtanh(mish({}) + 0.5) * 2",
        "F.hardtanh(F.mish({}) + 0.5) * 2",
    ),
    "instance_norm_divide": Layer(
        MEDIUM,
        "instance_norm({}) / 2",
        "F.instance_norm({}) / 2.0",
    ),
    "transposed_gelu_group_norm": Layer(
        _spreading((128, 64, 256, 256), 64, 3),
        "group_norm(gelu({}), 8) * <g> + <c>",
        "F.group_norm(F.gelu({}), 8, g, c)",
        vectors="gc",
    ),
    "transposed3d_residual_multiply": Layer(
        _doubling((16, 32, 16, 32, 32), 64, 3),
        "h = {} return (h + <s> + h) * h + h",
        "h = {}; return (h + <s> + h) * h + h",
        vectors="s",
    ),
    "add_scale_sigmoid_group_norm": Layer(
        _dense((128, 8, 256, 256), 32),
        "group_norm(sigmoid(({} + <s>) * <t>), 8) * <g> + <c>",
        "F.group_norm(torch.sigmoid(({} + <s>) * <t>), 8, g, c)",
        vectors="stgc",
    ),
    "conv3d_group_norm_mean": Layer(
        _dense((128, 3, 24, 32, 32), 24),
        "mean(group_norm({}, 8) * <g> + <c>, axis=(1, 2, 3, 4))",
        "F.group_norm({}, 8, g, c).mean((1, 2, 3, 4))",
        vectors="gc",
        result=(128,),
    ),
    "conv3d_min_softmax": Layer(
        _dense((128, 3, 24, 32, 32), 24),
        "softmax(min({}, axis=2), axis=1)",
        "torch.softmax(torch.min({}, 2)[0], 1)",
        result=(128, 24, 30, 30),
    ),
    "min_tanh_tanh": Layer(
        _dense((128, 16, 256, 256), 64),
        "tanh(tanh(min({}, axis=1, keepdims=on)))",
        "torch.tanh(torch.tanh(torch.min({}, 1, keepdim=True)[0]))",
        result=(128, 1, 254, 254),
    ),
    "transposed3d_add_hardswish": Layer(
        _doubling((128, 32, 16, 16, 16), 64, 3),
        "h = {} + r return h * hardswish(h)",
        "h = {} + r; return h * F.hardswish(h)",
        residual=True,
    ),
    "conv3d_hardswish_group_norm_mean": Layer(
        _dense((1024, 3, 16, 32, 32), 16, 4),
        "mean(group_norm(hardswish({}), 4) * <g> + <c>, axis=(2, 3, 4))",
        "torch.mean(F.group_norm(F.hardswish({}), 4, g, c), (2, 3, 4))",
        vectors="gc",
        result=(1024, 16),
    ),
    "minimum_add_multiply": Layer(
        MEDIUM,
        "(min({}, 0.5) + <s>) * 2",
        "(torch.clamp({}, max=0.5) + <s>) * 2.0",
        vectors="s",
    ),
    "scale_minimum_of_channels": Layer(
        LARGE,
        "min({} * 2, axis=1, keepdims=on)",
        "torch.min({} * 2.0, 1, keepdim=True)[0]",
        result=(64, 1, 254, 254),
    ),
    "transposed3d_layer_norm_gelu_scale": Layer(
        _doubling((32, 32, 16, 32, 32), 64, 4, 0),
        "gelu(layer_norm({}) * g + c) * 1.0",
        "F.gelu(F.layer_norm({}, g.shape, g, c)) * 1.0",
        vectors="gc",
    ),
    "subtract_hardswish_max_pool_mish": Layer(
        MEDIUM,
        "mish(max_pool(hardswish({} - 0.5), 2))",
        "F.mish(F.max_pool2d(F.hardswish({} - 0.5), 2))",
        result=(128, 128, 63, 63),
    ),
    "transposed_min_sum_gelu_add": Layer(
        _doubling((16, 64, 128, 128), 128, 3),
        "gelu(sum(min({}, axis=1, keepdims=on), axis=2, keepdims=on)) + t",
        "F.gelu(torch.sum(torch.min({}, 1, keepdim=True)[0], 2, keepdim=True)) + t",
        scalars="t",
        result=(16, 1, 1, 256),
    ),
    "transposed3d_avg_pool_clamp_softmax_multiply": Layer(
        _doubling((32, 32, 16, 32, 32), 64, 3),
        "h = clamp({}, 0, 1) e = exp(h - max(h, axis=(2, 3, 4), keepdims=on)) return e / sum(e, "
        "axis=(2, 3, 4), keepdims=on) * <s>",
        "h = torch.clamp({}, 0.0, 1.0); return torch.softmax(h.flatten(2), 2).view(h.shape) * <s>",
        vectors="s",
        pooled=2,
    ),
    "transposed_global_pool_bias_logsumexp_sum_multiply": Layer(
        _spreading((16, 64, 512, 512), 128, 3),
        "sum(logsumexp(mean({}, axis=(2, 3), keepdims=on) + <s>, axis=1, keepdims=on), axis=(2, 3)) * 10",
        "torch.sum(torch.logsumexp(torch.mean({}, (2, 3), keepdim=True) + <s>, 1, keepdim=True), "
        "(2, 3)) * 10.0",
        vectors="s",
        result=(16, 1),
    ),
    "conv3d_max_pool_logsumexp_relu": Layer(
        _dense((4, 32, 32, 128, 128), 64, 3, 1),
        "relu(logsumexp(max_pool({}, 2), axis=1, keepdims=on))",
        "torch.relu(torch.logsumexp(F.max_pool3d({}, 2, 2), 1, keepdim=True))",
        result=(4, 1, 16, 64, 64),
    ),
    "transposed_multiply_global_pool_global_pool": Layer(
        _doubling((16, 64, 128, 128), 128, 3),
        "mean(mean({} * 0.5, axis=(2, 3), keepdims=on), axis=(2, 3), keepdims=on)",
        "torch.mean(torch.mean({} * 0.5, (2, 3), keepdim=True), (2, 3), keepdim=True)",
        result=(16, 128, 1, 1),
    ),
    "subtract_tanh_subtract_avg_pool": Layer(
        MEDIUM,
        "avg_pool(tanh({} - 0.5) - 0.2, 2)",
        "F.avg_pool2d(torch.tanh({} - 0.5) - 0.2, 2)",
        result=(128, 128, 63, 63),
    ),
    "conv3d_mish_tanh": Layer(
        _dense((16, 32, 32, 64, 64), 64),
        "tanh(mish({}))",
        "torch.tanh(F.mish({}))",
    ),
    "conv3d_scale_tanh_multiply_sigmoid": Layer(
        _dense((128, 3, 16, 64, 64), 16),
        "sigmoid(tanh({} * <s>) * <t>)",
        "torch.sigmoid(torch.tanh({} * <s>) * <t>)",
        vectors="st",
    ),
    "transposed3d_softmax_sigmoid": Layer(
        _doubling((16, 32, 16, 32, 32), 64, 3),
        "sigmoid(softmax({}, axis=1))",
        "torch.sigmoid(torch.softmax({}, 1))",
    ),
    "transposed3d_scale_avg_pool_bias_scale": Layer(
        SHALLOW,
        "(avg_pool({} * t, 2) + <s>) * u",
        "(F.avg_pool3d({} * t, 2) + <s>) * u",
        vectors="s",
        scalars="tu",
        result=(128, 16, 15, 31, 31),
    ),
    "mish_batch_norm": Layer(
        _dense((64, 64, 128, 128), 128),
        "h = {} return batch_norm(tanh(softplus(h)) * h) * <g> + <c>",
        "h = {}; return F.batch_norm(torch.multiply(torch.tanh(F.softplus(h)), h), None, None, g, c, True)",
        vectors="gc",
        mixes=True,
    ),
    "multiply_leaky_relu_gelu": Layer(
        _dense((64, 64, 256, 256), 64),
        "gelu(leaky_relu({} * <s>, slope=0.01))",
        "F.gelu(F.leaky_relu({} * <s>, 0.01))",
        vectors="s",
    ),
    "relu_hardswish": Layer(
        FEW,
        "h = relu({}) return h * clamp((h + 3) / 6, 0, 1)",
        "h = torch.relu({}); return h * torch.clamp((h + 3) / 6, 0, 1)",
    ),
    "transposed3d_logsumexp_hardswish_subtract_clamp": Layer(
        SHALLOW,
        "h = logsumexp({}, axis=1, keepdims=on) return clamp(h * sigmoid(h + 3) / 6 - t, -1, 1)",
        "h = torch.logsumexp({}, 1, keepdim=True); return torch.clamp(h * torch.sigmoid(h + 3) / 6 "
        "- t, -1, 1)",
        scalars="t",
        result=(128, 1, 31, 63, 63),
    ),
    "transposed3d_swish_group_norm_hardswish": Layer(
        SHALLOW,
        "h = {} return hardswish(group_norm(sigmoid(h) * h, 4) * <g> + <c>)",
        "h = {}; return F.hardswish(F.group_norm(torch.sigmoid(h) * h, 4, g, c))",
        vectors="gc",
    ),
    "transposed3d_relu_group_norm": Layer(
        _spreading((16, 64, 32, 32, 32), 128, 3),
        "group_norm(relu({}), 8) * <g> + <c>",
        "F.group_norm(torch.relu({}), 8, g, c)",
        vectors="gc",
        bias=False,
    ),
    "avg_pool_sigmoid_sum": Layer(
        _dense((128, 8, 384, 384), 64),
        "sum(sigmoid(avg_pool({}, 4)), axis=(1, 2, 3))",
        "torch.sum(torch.sigmoid(F.avg_pool2d({}, 4)), (1, 2, 3))",
        result=(128,),
    ),
    "gelu_global_pool": Layer(
        WIDE,
        "mean(gelu({}), axis=(2, 3))",
        "F.adaptive_avg_pool2d(F.gelu({}), 1).squeeze(-1).squeeze(-1)",
        result=(128, 64),
    ),
    "hardswish_relu": Layer(
        FEW,
        "relu(hardswish({}))",
        "torch.relu(F.hardswish({}))",
    ),
    "divide_leaky_relu": Layer(
        FEW,
        "leaky_relu({} / 2, slope=0.01)",
        "F.leaky_relu({} / 2, 0.01)",
    ),
    "transposed3d_batch_norm_avg_pool_avg_pool": Layer(
        _doubling((64, 3, 32, 32, 32), 16, 3, 0),
        "avg_pool(avg_pool(batch_norm({}) * <g> + <c>, 2), 2)",
        "F.avg_pool3d(F.avg_pool3d(F.batch_norm({}, None, None, g, c, True), 2), 2)",
        vectors="gc",
        result=(64, 16, 15, 15, 15),
        mixes=True,
    ),
    "batch_norm_scale": Layer(
        FEW,
        "(batch_norm({}) * <g> + <c>) * 2",
        "F.batch_norm({}, None, None, g, c, True) * 2.0",
        vectors="gc",
        mixes=True,
    ),
    "transposed3d_leaky_multiply_leaky_max_pool": Layer(
        _doubling((16, 16, 16, 32, 32), 32, 3),
        "max_pool(leaky_relu(leaky_relu({}, slope=0.2) * <s>, slope=0.2), 2)",
        "F.max_pool3d(F.leaky_relu(F.leaky_relu({}, 0.2) * <s>, 0.2), 2)",
        vectors="s",
        result=(16, 32, 16, 32, 32),
    ),
    "transposed3d_scale_batch_norm_global_pool": Layer(
        _spreading((16, 64, 16, 32, 32), 128, 5),
        "mean(batch_norm({} * 2) * <g> + <c>, axis=(2, 3, 4), keepdims=on)",
        "F.adaptive_avg_pool3d(F.batch_norm({} * 2.0, None, None, g, c, True), 1)",
        vectors="gc",
        result=(16, 128, 1, 1, 1),
        mixes=True,
    ),
    "transposed3d_max_pool_max_pool_sum": Layer(
        Conv((16, 32, 32, 32, 32), 64, (5, 5, 5), 2, 2, transposed=True),
        "sum(max_pool(max_pool({}, 2), 3), axis=1, keepdims=on)",
        "torch.sum(F.max_pool3d(F.max_pool3d({}, 2), 3), 1, keepdim=True)",
        result=(16, 1, 10, 10, 10),
    ),
    "conv3d_multiply_instance_norm_clamp_multiply_max": Layer(
        _dense((128, 3, 16, 32, 32), 16),
        "max(clamp(instance_norm({} * <s>), -1, 1) * <s>, axis=1)",
        "torch.max(torch.clamp(F.instance_norm({} * <s>), -1.0, 1.0) * <s>, 1)[0]",
        vectors="s",
        result=(128, 14, 30, 30),
    ),
    "tanh_scale_bias_max_pool": Layer(
        WIDE,
        "max_pool(tanh({}) * 2 + <s>, 4)",
        "F.max_pool2d(torch.tanh({}) * 2.0 + <s>, 4)",
        vectors="s",
        result=(128, 64, 63, 63),
    ),
    "conv3d_group_norm_min_clamp_dropout": Layer(
        _dense((128, 3, 16, 64, 64), 16),
        "dropout(clamp(min(group_norm({}, 8) * <g> + <c>, 0), 0, 1), 0.2, 7)",
        "F.dropout(torch.clamp(torch.clamp(F.group_norm({}, 8, g, c), max=0.0), 0.0, 1.0), 0.2, True)",
        vectors="gc",
    ),
    "group_norm_scale_max_pool_clamp": Layer(
        FEW,
        "clamp(max_pool((group_norm({}, 16) * <g> + <c>) * <s>, 4), 0, 1)",
        "torch.clamp(F.max_pool2d(F.group_norm({}, 16, g, c) * <s>, 4), 0.0, 1.0)",
        vectors="gcs",
        result=(128, 64, 31, 31),
    ),
    "subtract_subtract_mish": Layer(
        WIDE,
        "mish({} - 0.5 - 0.2)",
        "F.mish({} - 0.5 - 0.2)",
    ),
    "transposed3d_max_pool_softmax_subtract_swish_max": Layer(
        _doubling((128, 3, 16, 32, 32), 16, 3),
        "h = softmax(max_pool({}, 2), axis=1) - <s> return max(sigmoid(h) * h, axis=1)",
        "h = torch.softmax(F.max_pool3d({}, 2, 2), 1) - <s>; return torch.max(torch.sigmoid(h) * h, 1)[0]",
        vectors="s",
        result=(128, 16, 32, 32),
    ),
    "conv3d_leaky_sum_clamp_gelu": Layer(
        _dense((128, 8, 16, 64, 64), 64),
        "gelu(clamp(leaky_relu({}, slope=0.2) + <s>, -1, 1))",
        "F.gelu(torch.clamp(F.leaky_relu({}, 0.2) + <s>, -1.0, 1.0))",
        vectors="s",
    ),
    "transposed_softmax_bias_scale_sigmoid": Layer(
        _doubling((128, 64, 64, 64), 128, 4),
        "sigmoid((softmax({}, axis=1) + <s>) * 2)",
        "torch.sigmoid((torch.softmax({}, 1) + <s>) * 2.0)",
        vectors="s",
    ),
    "group_norm_tanh_hardswish_residual_logsumexp": Layer(
        FEW,
        "h = {} return logsumexp(h + hardswish(tanh(group_norm(h, 16) * <g> + <c>)), axis=1, keepdims=on)",
        "h = {}; return torch.logsumexp(h + F.hardswish(torch.tanh(F.group_norm(h, 16, g, c))), 1, "
        "keepdim=True)",
        vectors="gc",
        result=(128, 1, 126, 126),
    ),
    "transposed_add_min_gelu_multiply": Layer(
        Conv((128, 64, 64, 64), 128, (4, 4), 2, transposed=True),
        "gelu(min({} + 0.5, 0)) * 2",
        "F.gelu(torch.clamp({} + 0.5, max=0.0)) * 2.0",
    ),
    "transposed3d_multiply_max_pool_global_pool_clamp": Layer(
        SHALLOW,
        "clamp(mean(max_pool({} * 0.5, 2), axis=(2, 3, 4), keepdims=on), 0, 1)",
        "torch.clamp(F.adaptive_avg_pool3d(F.max_pool3d({} * 0.5, 2), 1), 0, 1)",
        result=(128, 16, 1, 1, 1),
    ),
    "transposed3d_clamp_divide": Layer(
        _doubling((16, 64, 24, 48, 48), 128, 3, 0),
        "max({}, -1) / 2",
        "torch.clamp({}, min=-1.0) / 2.0",
    ),
}

FORMS = tuple(layer.form(name) for name, layer in LAYERS.items())
