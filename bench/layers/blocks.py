"""Parts of transformers, and rows of norms and softmaxes of many sizes."""

from __future__ import annotations

from collections.abc import Iterator

from bench.layers.forms import Form, Input, tensor

TOKENS, MODEL, HIDDEN = 4096, 4096, 14336
VOCABULARY = 131072
EXPERTS = 8
GATED = "F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d)"


def _blocks() -> Iterator[Form]:
    def block(
        name: str, results: str, body: str, reference: str, *inputs: Input, has_product: bool = False
    ) -> Form:
        return Form("blocks", name, inputs, results, f"return {body}", reference, has_product)

    x, same = Input("x", "bf16", (TOKENS, MODEL)), tensor("bf16", TOKENS, MODEL)
    wide = 4 * MODEL
    yield block(
        "mlp",
        same,
        "gelu(x @ w.T + b) @ v.T + c",
        "F.linear(F.gelu(F.linear(x, w, b)), v, c)",
        x,
        Input("w", "bf16", (wide, MODEL), "weight"),
        Input("b", "bf16", (wide,)),
        Input("v", "bf16", (MODEL, wide), "weight"),
        Input("c", "bf16", (MODEL,)),
        has_product=True,
    )
    gates = (
        Input("g", "bf16", (HIDDEN, MODEL), "weight"),
        Input("u", "bf16", (HIDDEN, MODEL), "weight"),
        Input("d", "bf16", (MODEL, HIDDEN), "weight"),
    )
    yield block("gated_mlp", same, "(silu(x @ g.T) * (x @ u.T)) @ d.T", GATED, x, *gates, has_product=True)
    yield Form(
        "blocks",
        "pre_norm_mlp",
        (x, Input("s", "bf16", (MODEL,), "positive"), *gates),
        same,
        "n = rms_norm(x) * s return x + (silu(n @ g.T) * (n @ u.T)) @ d.T",
        f"n = F.rms_norm(x, s.shape, s, 1e-5); return x + {GATED.replace('(x', '(n')}",
        has_product=True,
    )
    yield Form(
        "blocks",
        "experts",
        (
            x,
            Input("g", "bf16", (EXPERTS, MODEL, HIDDEN // 2), "weight"),
            Input("u", "bf16", (EXPERTS, MODEL, HIDDEN // 2), "weight"),
            Input("d", "bf16", (EXPERTS, HIDDEN // 2, MODEL), "weight"),
            Input("e", "s32", (EXPERTS,), "ends", TOKENS // EXPERTS),
        ),
        same,
        "h = silu(grouped_matmul(x, g, e)) * grouped_matmul(x, u, e) return grouped_matmul(h, d, e)",
        "n = x.view(g.shape[0], -1, x.shape[1]); h = F.silu(torch.bmm(n, g)) * torch.bmm(n, u); "
        "return torch.bmm(h, d).view(x.shape)",
        has_product=True,
    )
    heads = (8, 32, 4096, 128)
    yield Form(
        "blocks",
        "rotary",
        (Input("x", "bf16", heads), Input("c", "bf16", heads[2:]), Input("s", "bf16", heads[2:])),
        tensor("bf16", *heads),
        "return x * c + concat(-x[..., 64:], x[..., :64], axis=-1) * s",
        "x * c + torch.cat((-x[..., 64:], x[..., :64]), -1) * s",
    )
    yield Form(
        "blocks",
        "cross_entropy_vocabulary",
        (Input("x", "bf16", (8192, VOCABULARY)), Input("y", "s32", (8192,), "labels", VOCABULARY)),
        "f32[]",
        "return -mean(take_along(log_softmax(cast(x, f32), axis=1), y[:, None], axis=1))",
        "F.cross_entropy(x.float() if x.dtype == torch.bfloat16 else x, y)",
        rival="cross_entropy",
    )
    rows = 65536
    yield Form(
        "blocks",
        "embedding",
        (Input("x", "bf16", (VOCABULARY, MODEL)), Input("y", "s32", (rows,), "labels", VOCABULARY)),
        tensor("bf16", rows, MODEL),
        "return gather(x, y)",
        "F.embedding(y, x)",
        moved=2 * rows * MODEL * 2 + rows * 4,
    )


ROWS, COLUMNS = (2048, 16384), (1024, 4096, 16384)


def _rows() -> Iterator[Form]:
    """Build norms and softmaxes along rows, in L2 and out of it."""
    for dtype in ("bf16", "f32"):
        for m in ROWS:
            for n in COLUMNS:
                x, w, b = (
                    Input("x", dtype, (m, n)),
                    Input("w", dtype, (n,), "positive"),
                    Input("b", dtype, (n,)),
                )
                kinds: dict[str, tuple[str, str, tuple[Input, ...]]] = {
                    "softmax": ("softmax(x)", "torch.softmax(x, -1)", (x,)),
                    "layer_norm": (
                        "layer_norm(x) * w + b",
                        "F.layer_norm(x, w.shape, w, b)",
                        (x, w, b),
                    ),
                    "rms_norm": (
                        "rms_norm(x) * w",
                        "F.rms_norm(x, w.shape, w, 1e-05)",
                        (x, w),
                    ),
                }
                for name, (expr, reference, inputs) in kinds.items():
                    yield Form(
                        "rows",
                        f"{name}_{m}x{n}_{dtype}",
                        inputs,
                        tensor(dtype, m, n),
                        f"return {expr}",
                        reference,
                        rival=name,
                    )


FORMS = (*_blocks(), *_rows())
