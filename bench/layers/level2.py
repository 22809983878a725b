"""Layers with a product and what follows it, at the sizes of KernelBench's level 2."""

from __future__ import annotations

from bench.layers.forms import Form, Input, statements, tensor

GROUP = "level2"

MEDIUM = (1024, 8192, 8192)
LARGE = (2048, 8192, 8192)
TALL = (16384, 4096, 4096)
WIDE = (128, 32768, 32768)
SMALL = (128, 16384, 16384)


def _linear(
    name: str,
    sizes: tuple[int, int, int],
    body: str,
    reference: str,
    *more: Input,
    columns: int | None = None,
    one: bool = False,
    residual: bool = False,
) -> Form:
    """Build a layer of h, a linear layer's result of `sizes` (rows, inputs, outputs).

    Its result has `columns`, by default those of h; with `one` it is a vector. With `residual` the layer's
    input is added to what `reference` computes.
    """
    m, k, n = sizes
    inputs = (Input("x", "f32", (m, k)), Input("w", "f32", (n, k), "weight"), Input("b", "f32", (n,)), *more)
    shape = (m,) if one else (m, n if columns is None else columns)

    text = f"h = F.linear(x, w, b); {statements(reference)}{' + x' if residual else ''}"
    return Form(GROUP, name, inputs, tensor("f32", *shape), f"h = x @ w.T + b {body}", text, has_product=True)


def _affine(n: int) -> tuple[Input, Input]:
    return Input("g", "f32", (n,), "positive"), Input("c", "f32", (n,))


_COLUMN = Input("s", "f32", (1,))

FORMS: tuple[Form, ...] = (
    _linear("subtract_multiply_relu", MEDIUM, "return relu((h - 2) * 1.5)", "torch.relu((h - 2) * 1.5)"),
    _linear(
        "multiply_leaky_relu",
        MEDIUM,
        "return leaky_relu(h * 2, slope=0.1)",
        "F.leaky_relu(h * 2, 0.1)",
    ),
    _linear(
        "divide_sum_scaling",
        MEDIUM,
        "return sum(h / 2, axis=1, keepdims=on) * 1.5",
        "torch.sum(h / 2, 1, keepdim=True) * 1.5",
        columns=1,
    ),
    _linear(
        "sum_of_rows",
        MEDIUM,
        "t = mean(max(sum(h, axis=1, keepdims=on), axis=1, keepdims=on), axis=1, keepdims=on) "
        "return logsumexp(logsumexp(t, axis=1, keepdims=on), axis=1, keepdims=on)",
        "t = torch.mean(torch.max(torch.sum(h, 1, keepdim=True), 1, keepdim=True)[0], 1, keepdim=True); "
        "return torch.logsumexp(torch.logsumexp(t, 1, keepdim=True), 1, keepdim=True)",
        columns=1,
    ),
    _linear(
        "instance_norm_sum_multiply",
        MEDIUM,
        "return (layer_norm(h) + y) * y",
        "(F.layer_norm(h, h.shape[1:]) + y) * y",
        Input("y", "f32", (1024, 8192)),
    ),
    _linear(
        "scale_residual_clamp_logsumexp_mish",
        MEDIUM,
        "r = clamp(h * 2 + h * 2, -10, 10) s = logsumexp(r, axis=1, keepdims=on) return s * mish(s)",
        "s = torch.logsumexp(torch.clamp(h * 2 + h * 2, -10, 10), 1, keepdim=True); return s * F.mish(s)",
        columns=1,
    ),
    _linear(
        "mish_mish",
        MEDIUM,
        "return mish(mish(h))",
        "F.mish(F.mish(h))",
    ),
    _linear(
        "group_norm_hardtanh",
        MEDIUM,
        "return hardtanh(group_norm(h, 16) * g + c, lo=-2, hi=2)",
        "F.hardtanh(F.group_norm(h, 16, g, c), -2.0, 2.0)",
        *_affine(8192),
    ),
    _linear(
        "scale_batch_norm",
        MEDIUM,
        "return batch_norm(h * s) * g + c",
        "F.batch_norm(h * s, None, None, g, c, True)",
        Input("s", "f32", (8192,)),
        *_affine(8192),
    ),
    _linear(
        "swish_bias_group_norm",
        (32768, 1024, 4096),
        "return group_norm(silu(h) + s, 64) * g + c",
        "F.group_norm(torch.sigmoid(h) * h + s, 64, g, c)",
        Input("s", "f32", (4096,)),
        *_affine(4096),
    ),
    _linear(
        "scale_batch_norm_tall",
        TALL,
        "return batch_norm(h * s) * g + c",
        "F.batch_norm(h * s, None, None, g, c, True)",
        Input("s", "f32", (4096,)),
        *_affine(4096),
    ),
    _linear("scaling_residual", TALL, "return h * 0.5 + h", "h * 0.5 + h"),
    _linear(
        "batch_norm_gelu_relu",
        TALL,
        "return relu(gelu(batch_norm(h) * g + c))",
        "torch.relu(F.gelu(F.batch_norm(h, None, None, g, c, True)))",
        *_affine(4096),
    ),
    Form(
        GROUP,
        "sigmoid_linear_logsumexp",
        (
            Input("x", "f32", (16384, 2048)),
            Input("w", "f32", (4096, 2048), "weight"),
            Input("b", "f32", (4096,)),
            Input("v", "f32", (1024, 4096), "weight"),
            Input("c", "f32", (1024,)),
        ),
        tensor("f32", 16384),
        "return logsumexp(sigmoid(x @ w.T + b) @ v.T + c, axis=1)",
        "torch.logsumexp(F.linear(torch.sigmoid(F.linear(x, w, b)), v, c), 1)",
        has_product=True,
    ),
    _linear(
        "subtract_mean_logsumexp_gelu_residual",
        LARGE,
        "m = mean(h - s, axis=1, keepdims=on) return gelu(logsumexp(m, axis=1, keepdims=on)) + x",
        "F.gelu(torch.logsumexp(torch.mean(h - s, 1, keepdim=True), 1, keepdim=True))",
        Input("s", "f32", (8192,)),
        residual=True,
    ),
    _linear(
        "scaling_hardtanh_gelu",
        LARGE,
        "return gelu(hardtanh(h * 0.5, lo=-2, hi=2))",
        "F.gelu(F.hardtanh(h * 0.5, -2.0, 2.0))",
    ),
    _linear(
        "max_pool_sum_scale",
        WIDE,
        "return sum(max_pool(h[:, None, :], 2)[:, 0, :], axis=1) * 0.5",
        "torch.sum(F.max_pool1d(h[:, None, :], 2)[:, 0, :], 1) * 0.5",
        one=True,
    ),
    _linear(
        "sigmoid_sum",
        WIDE,
        "return sum(sigmoid(h), axis=1, keepdims=on)",
        "torch.sum(torch.sigmoid(h), 1, keepdim=True)",
        columns=1,
    ),
    _linear("swish_scaling", WIDE, "return silu(h) * 2", "h * torch.sigmoid(h) * 2"),
    _linear(
        "group_norm_leaky_relu_sum",
        MEDIUM,
        "y = leaky_relu(group_norm(h, 512) * g + c) return y + y",
        "y = F.leaky_relu(F.group_norm(h, 512, g, c), 0.01); return y + y",
        *_affine(8192),
    ),
    _linear("relu_divide", MEDIUM, "return relu(h) / 2", "torch.relu(h) / 2"),
    _linear(
        "logsumexp_leaky_relu_gelu",
        MEDIUM,
        "s = logsumexp(h, axis=1, keepdims=on) return gelu(gelu(leaky_relu(leaky_relu(s))))",
        "s = torch.logsumexp(h, 1, keepdim=True); return F.gelu(F.gelu(F.leaky_relu(F.leaky_relu(s))))",
        columns=1,
    ),
    _linear("softmax", SMALL, "return softmax(h, axis=1)", "torch.softmax(h, 1)"),
    _linear("min_subtract", SMALL, "return min(h, s) - s", "torch.minimum(h, s) - s", _COLUMN),
    _linear("sigmoid_scaling_residual", MEDIUM, "return sigmoid(h) * 2 + h", "torch.sigmoid(h) * 2 + h"),
    _linear(
        "group_norm_min_bias",
        MEDIUM,
        "return min(group_norm(h, 512) * g + c, axis=1, keepdims=on) + s",
        "torch.min(F.group_norm(h, 512, g, c), 1, keepdim=True)[0] + s",
        *_affine(8192),
        _COLUMN,
        columns=1,
    ),
    _linear(
        "max_subtract_gelu",
        MEDIUM,
        "m = max(h, axis=1, keepdims=on) return gelu(m - mean(m, axis=1, keepdims=on))",
        "m = torch.max(h, 1, keepdim=True)[0]; return F.gelu(m - m.mean(1, keepdim=True))",
        columns=1,
    ),
    _linear("add_relu", MEDIUM, "return relu(h + s)", "torch.relu(h + s)", Input("s", "f32", (8192,))),
    _linear(
        "swish_divide_clamp_tanh",
        MEDIUM,
        "return clamp(tanh(clamp(silu(h) / 2, -1, 1)), -1, 1)",
        "torch.clamp(torch.tanh(torch.clamp(h * torch.sigmoid(h) / 2, -1.0, 1.0)), -1.0, 1.0)",
    ),
    _linear(
        "batch_norm_scaling_softmax",
        MEDIUM,
        "return softmax((batch_norm(h) * g + c) * s, axis=1)",
        "torch.softmax(F.batch_norm(h, None, None, g, c, True) * s, 1)",
        *_affine(8192),
        _COLUMN,
    ),
    _linear("divide_gelu", MEDIUM, "return gelu(h / 10)", "F.gelu(h / 10)"),
    _linear(
        "group_norm_swish_multiply_swish",
        MEDIUM,
        "return silu(silu(group_norm(h, 256) * g + c) * s)",
        "F.silu(F.silu(F.group_norm(h, 256, g, c)) * s)",
        *_affine(8192),
        Input("s", "f32", (8192,)),
    ),
    _linear(
        "bias_hardtanh_mish_group_norm",
        MEDIUM,
        "return group_norm(mish(hardtanh(h + s)), 256) * g + c",
        "F.group_norm(F.mish(F.hardtanh(h + s)), 256, g, c)",
        Input("s", "f32", (8192,)),
        *_affine(8192),
    ),
    _linear(
        "add_swish_tanh_gelu_hardtanh",
        MEDIUM,
        "return hardtanh(gelu(tanh(silu(h + s))))",
        "F.hardtanh(F.gelu(torch.tanh(F.silu(h + s))))",
        Input("s", "f32", (8192,)),
    ),
    _linear(
        "batch_norm_bias_divide_swish",
        MEDIUM,
        "return silu((batch_norm(h) * g + c + s) / 1)",
        "F.silu(F.batch_norm(h, None, None, g, c, True) + s)",
        *_affine(8192),
        _COLUMN,
    ),
    _linear(
        "avg_pool_gelu_scale_max",
        MEDIUM,
        "return max(gelu(avg_pool(h[:, None, :], 16)[:, 0, :]) * 2, axis=1)",
        "torch.max(F.gelu(F.avg_pool1d(h[:, None, :], 16)[:, 0, :]) * 2, 1)[0]",
        one=True,
    ),
    _linear(
        "gelu_softmax",
        MEDIUM,
        "return softmax(gelu(h), axis=1)",
        "torch.softmax(F.gelu(h), 1)",
    ),
)
