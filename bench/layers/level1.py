"""Activations, norms, softmaxes, reductions, scans, losses and pools in the sizes of KernelBench level 1."""

from __future__ import annotations

from collections.abc import Iterator

from bench.layers.forms import Form, Input, tensor
from bench.layers.pools import Pool

GROUP = "level1"

ROWS = (4096, 393216)
IMAGES = (112, 64, 512, 512)
CUBE = (128, 4096, 4095)
SQUARE = (32768, 32768)

GELU = "0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x * x * x)))"

ACTIVATIONS: dict[str, tuple[str, str]] = {
    "relu": ("relu(x)", "torch.relu(x)"),
    "leaky_relu": ("leaky_relu(x, slope=0.01)", "F.leaky_relu(x, 0.01)"),
    "sigmoid": ("sigmoid(x)", "torch.sigmoid(x)"),
    "tanh": ("tanh(x)", "torch.tanh(x)"),
    "swish": ("silu(x)", "x * torch.sigmoid(x)"),
    "gelu": ("gelu(x)", "F.gelu(x)"),
    "selu": ("selu(x)", "torch.selu(x)"),
    "hardsigmoid": ("hardsigmoid(x)", "F.hardsigmoid(x)"),
    "softplus": ("softplus(x)", "F.softplus(x)"),
    "softsign": ("softsign(x)", "x / (1 + torch.abs(x))"),
    "elu": ("elu(x, alpha=1)", "F.elu(x)"),
    "hardtanh": ("hardtanh(x)", "F.hardtanh(x)"),
}


def _same(
    name: str, shape: tuple[int, ...], expr: str, reference: str, *more: Input, rival: str = ""
) -> Form:
    """Build a layer of x whose result has x's shape."""
    x = Input("x", "f32", shape)
    return Form(GROUP, name, (x, *more), tensor("f32", *shape), f"return {expr}", reference, rival=rival)


def _activations() -> Iterator[Form]:
    for name, (expr, reference) in ACTIVATIONS.items():
        yield _same(name, ROWS, expr, reference)
    yield _same("gelu_tanh", (8192, 8192), "gelu(x, approximate=tanh)", GELU)


def _norms() -> Iterator[Form]:
    yield _same("softmax", ROWS, "softmax(x, axis=1)", "torch.softmax(x, 1)", rival="softmax")
    yield _same("log_softmax", ROWS, "log_softmax(x, axis=1)", "torch.log_softmax(x, 1)")
    c = 64
    weights = (Input("w", "f32", (c,), "positive"), Input("b", "f32", (c,)))
    scaled = "({}) * w[:, None, None] + b[:, None, None]"
    yield _same(
        "batch_norm",
        (64, c, 512, 512),
        scaled.format("batch_norm(x)"),
        "F.batch_norm(x, None, None, w, b, True)",
        *weights,
    )
    yield _same("instance_norm", IMAGES, "instance_norm(x)", "F.instance_norm(x)")
    yield _same(
        "group_norm",
        IMAGES,
        scaled.format("group_norm(x, 8)"),
        "F.group_norm(x, 8, w, b)",
        *weights,
    )
    yield _same(
        "rms_norm",
        IMAGES,
        "rms_norm(x, axis=1)",
        "x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-05)",
    )
    yield _same("frobenius_norm", IMAGES, "x / sqrt(sum(x * x))", "x / torch.norm(x, p='fro')")
    wide = (32768, 65535)
    yield _same(
        "l1_norm",
        wide,
        "x / mean(abs(x), axis=1, keepdims=on)",
        "x / torch.mean(torch.abs(x), dim=1, keepdim=True)",
    )
    yield _same(
        "l2_norm",
        wide,
        "x / sqrt(sum(x * x, axis=1, keepdims=on))",
        "x / torch.norm(x, p=2, dim=1, keepdim=True)",
    )
    inner = (64, 256, 256)
    yield _same(
        "layer_norm",
        (16, *inner),
        "layer_norm(x, axis=(1, 2, 3)) * w + b",
        "F.layer_norm(x, w.shape, w, b)",
        Input("w", "f32", inner, "positive"),
        Input("b", "f32", inner),
    )


def _reductions() -> Iterator[Form]:
    x, (a, _, c) = Input("x", "f32", CUBE), CUBE
    kinds: dict[str, tuple[str, str, str]] = {
        "sum": ("f32", "sum(x, axis=1, keepdims=on)", "torch.sum(x, 1, keepdim=True)"),
        "mean": ("f32", "mean(x, axis=1)", "torch.mean(x, 1)"),
        "max": ("f32", "max(x, axis=1)", "torch.max(x, 1)[0]"),
        "min": ("f32", "min(x, axis=1)", "torch.min(x, 1)[0]"),
        "argmax": ("s32", "argmax(x, axis=1)", "torch.argmax(x, 1)"),
        "argmin": ("s32", "argmin(x, axis=1)", "torch.argmin(x, 1)"),
    }
    for name, (dtype, expr, reference) in kinds.items():
        shape = (a, 1, c) if name == "sum" else (a, c)
        yield Form(GROUP, f"{name}_middle", (x,), tensor(dtype, *shape), f"return {expr}", reference)


def _scans() -> Iterator[Form]:
    yield _same("cumsum", SQUARE, "cumsum(x, axis=1)", "torch.cumsum(x, 1)")
    # Factors near 1: products of 32,768 normal numbers are 0.
    shape, near = SQUARE, Input("x", "f32", SQUARE, "near_one")
    yield Form(
        GROUP,
        "cumprod",
        (near,),
        tensor("f32", *shape),
        "return cumprod(x, axis=1)",
        "torch.cumprod(x, 1)",
    )
    yield _same(
        "cumsum_reverse", SQUARE, "cumsum(x, axis=1, reverse=on)", "torch.cumsum(x.flip(1), 1).flip(1)"
    )
    yield _same(
        "cumsum_exclusive",
        SQUARE,
        "cumsum(x, axis=1, exclusive=on)",
        "torch.cumsum(torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1), 1)",
    )
    yield _same(
        "masked_cumsum",
        SQUARE,
        "cumsum(where(m > 0, x, 0), axis=1)",
        "torch.cumsum(x * m.view(torch.bool), 1)",
        Input("m", "u8", SQUARE, "mask"),
    )


def _losses() -> Iterator[Form]:
    def loss(
        name: str, body: str, reference: str, *inputs: Input, rival: str = "", condition: float = 1.0
    ) -> Form:
        return Form(GROUP, name, inputs, "f32[]", body, reference, rival=rival, condition=condition)

    p, y = Input("p", "f32", SQUARE), Input("y", "f32", SQUARE)
    yield loss("mse_loss", "d = p - y return mean(d * d)", "torch.mean((p - y) ** 2)", p, y)
    yield loss(
        "huber_loss",
        "d = abs(p - y) return mean(where(d < 1, 0.5 * d * d, d - 0.5))",
        "F.smooth_l1_loss(p, y)",
        p,
        y,
    )
    yield loss(
        "hinge_loss",
        "return mean(relu(1 - p * y))",
        "torch.mean(torch.clamp(1 - p * y, min=0))",
        p,
        Input("y", "f32", SQUARE[1:], "signs"),
    )
    yield loss(
        "cross_entropy",
        "return -mean(take_along(log_softmax(x, axis=1), y[:, None], axis=1))",
        "F.cross_entropy(x, y)",
        Input("x", "f32", (32768, 4096)),
        Input("y", "s32", (32768,), "labels", 4096),
        rival="cross_entropy",
    )
    shares = (16384, 16384)
    yield loss(
        "kl_div_loss",
        f"return sum(where(y > 0, y * (log(y) - log(p)), 0)) / {shares[0]}",
        "F.kl_div(torch.log(p), y, reduction='batchmean')",
        Input("p", "f32", shares, "shares"),
        Input("y", "f32", shares, "shares"),
    )
    yield loss(
        "triplet_loss",
        "d = a - p + 0.000001 e = a - n + 0.000001 "
        "return mean(relu(sqrt(sum(d * d, axis=1)) - sqrt(sum(e * e, axis=1)) + 1))",
        "F.triplet_margin_loss(a, p, n, margin=1.0)",
        *(Input(name, "f32", (32768, 8192)) for name in "apn"),
        # A row's two distances are about (2 * 8192)^0.5 = 128, their difference and 1 about 1. Rows err
        # independently, so that their mean has 2 * 128 / 32768^0.5 of that; the mean is rounded besides.
        condition=1 + 1.42,
    )


POOLS: dict[str, Pool] = {
    "max_pool1d": Pool("max", (64, 192, 65536), 8, stride=1, pad=4, dilation=3),
    "max_pool2d": Pool("max", (32, 64, 512, 512), 4, stride=1, pad=1),
    "max_pool3d": Pool("max", (16, 32, 128, 128, 128), 3, stride=2, pad=1, dilation=3),
    "avg_pool1d": Pool("avg", (64, 128, 65536), 8, stride=1, pad=4),
    "avg_pool2d": Pool("avg", (16, 64, 2048, 2048), 11),
    "avg_pool3d": Pool("avg", (16, 32, 128, 128, 256), 3, stride=2, pad=1),
}


def _pools() -> Iterator[Form]:
    for name, pool in POOLS.items():
        yield pool.form(GROUP, name, "f32")


FORMS = (*_activations(), *_norms(), *_reductions(), *_scans(), *_losses(), *_pools())
