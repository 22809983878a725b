"""Attention that repeats heads of keys and values, as `repeat_kv` of transformers: programs share them."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from importerlib import Applied, agrees  # noqa: E402

from mucc.compiler.driver import compile_text  # noqa: E402
from mucc.diagnostics.core import Source  # noqa: E402
from mucc.torch.importer import from_torch  # noqa: E402

B, H, G, S, T, D = 2, 2, 3, 6, 10, 8


def repeated(x: Any) -> Any:
    return x[:, :, None].expand(B, H, G, -1, D).reshape(B, H * G, -1, D)


def heads(x: Any, count: int) -> Any:
    return x.view(B, -1, count, D).transpose(1, 2)


def llama(q: Any, k: Any, v: Any) -> Any:
    q, k, v = heads(q, H * G), heads(k, H), heads(v, H)
    mask = torch.full((S, T), -torch.inf, dtype=q.dtype).triu(1)
    scores = q @ repeated(k).transpose(2, 3) * D**-0.5 + mask
    weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype)
    return (weights @ repeated(v)).transpose(1, 2).reshape(B, S, -1)


def capped(q: Any, k: Any, v: Any) -> Any:
    q, k, v = heads(q, H * G), heads(k, H), heads(v, H)
    slopes = torch.arange(H * G)[:, None, None] * torch.arange(T)
    scores = torch.tanh(q @ repeated(k).transpose(2, 3) / 30) * 30 + slopes.to(q.dtype) / 20
    return (scores.softmax(-1) @ repeated(v)).transpose(1, 2).reshape(B, S, -1)


def sinks(q: Any, k: Any, v: Any) -> Any:
    q, k, v = heads(q, H * G), heads(k, H), heads(v, H)
    scores = q @ repeated(k).transpose(2, 3) * D**-0.5
    scores = torch.cat([scores, v[:1, :1, :1, :1].expand(B, H * G, S, 1)], -1)
    scores = scores - scores.max(-1, keepdim=True).values
    return (scores.softmax(-1)[..., :-1] @ repeated(v)).transpose(1, 2).reshape(B, S, -1)


def sdpa(q: Any, k: Any, v: Any) -> Any:
    q, k, v = heads(q, H * G), heads(k, H), heads(v, H)
    y = torch.nn.functional.scaled_dot_product_attention(q, repeated(k), repeated(v), is_causal=True)
    return y.transpose(1, 2).reshape(B, S, -1)


FORMS = (llama, capped, sinks, sdpa)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_heads_are_read_where_they_lie(form: Any) -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(B, n, h * D).half() for n, h in ((S, H * G), (T, H), (T, H))]
    made = from_torch(Applied(form), inputs, whole=True)
    lowered = str(compile_text(Source("k.mcu", made.program.text())).cutlass)
    assert lowered.count("cutlass.attention ") == 1
    assert lowered.count("cutlass.map ") <= (2 if form in (capped, sinks) else 1)  # of results, biases, sinks
    agrees(made, *inputs)


def test_weights_that_are_results_are_computed_once() -> None:
    def forward(q: Any, k: Any, v: Any) -> Any:
        weights = (q @ repeated(k).transpose(2, 3)).softmax(-1)
        return weights @ repeated(v), weights

    torch.manual_seed(1)
    inputs = [torch.randn(B, h, n, D).half() for n, h in ((S, H * G), (T, H), (T, H))]
    made = from_torch(Applied(forward), inputs, whole=True)
    text = made.program.text()
    assert text.count(" @ ") == 2 and text.count("softmax(") == 1
    agrees(made, *inputs)
