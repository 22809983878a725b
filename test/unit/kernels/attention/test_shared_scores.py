"""Scores that several attentions read: each computes them, and nothing stores them."""

from __future__ import annotations

import numpy as np
import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source

PROGRAM = """
kernel f[B, M](q: bf16[B, 2, M, 64], k: bf16[B, 2, M, 64], v: bf16[B, 2, M, 64])
    -> (a: bf16[B, 2, M, 64], b: %s) {
    scores = cast(q @ permute(k, (0, 1, 3, 2)), f32) * 0.125
    return cast(softmax(softplus(scores), axis=3), bf16) @ v, %s
}
"""
RESULT = "bf16[B, 2, M, 64]"


@pytest.mark.parametrize(
    ("type", "other", "attentions", "products"),
    [
        (RESULT, "cast(softmax(20 * tanh(scores / 20), axis=3), bf16) @ v", 2, 0),
        (RESULT, "cast(sigmoid(scores), bf16) @ v", 2, 0),
        (
            RESULT,
            "cast(softmax(relu(cast(q @ permute(k, (0, 1, 3, 2)), f32)) * scores, axis=3), bf16) @ v",
            2,
            0,
        ),
        (RESULT, "-(cast(softmax(softplus(scores), axis=3), bf16) @ v)", 1, 0),
        ("f32[B, 2, M, M]", "tanh(scores)", 0, 2),
        ("f32[B, 2, M]", "max(scores, axis=3)", 0, 2),
    ],
)
def test_attention_computes_scores_that_only_attention_reads(
    type: str, other: str, attentions: int, products: int
) -> None:
    compilation = compile_text(Source("k.mcu", PROGRAM % (type, other)))
    lowered = str(compilation.cutlass)
    assert lowered.count("cutlass.attention ") == attentions
    assert lowered.count("cutlass.gemm ") == products
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=(2, 2, 20, 64)).astype(np.float32) for _ in range(3)]
    found, meant = compilation.interpret_lowered("f", inputs), compilation.interpret("f", inputs)
    for got, want in zip(found, meant, strict=True):
        np.testing.assert_allclose(got, want, rtol=0.01, atol=0.02)


SHARED = """
kernel f[B, M](q: bf16[B, M, 64], k: bf16[B, M, 64], v: bf16[B, M, 64], u: bf16[B, M, %s])
    -> (a: bf16[B, M, 64], b: bf16[B, M, %s]) {
    p = cast(softmax(cast(q @ k.T, f32) * 0.125), bf16)
    return p @ v, %s
}
"""


@pytest.mark.parametrize(
    ("width", "other", "attentions"),
    [(32, "p @ u", 2), (64, "p @ u + p @ v", 2), (64, "p @ p @ u", 0), (512, "p @ u", 0)],
)
def test_products_by_one_softmax_are_attention_if_all_of_them_are(
    width: int, other: str, attentions: int
) -> None:
    compilation = compile_text(Source("k.mcu", SHARED % (width, width, other)))
    assert str(compilation.cutlass).count("cutlass.attention ") == attentions
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=(2, 20, n)).astype(np.float32) for n in (64, 64, 64, width)]
    found, meant = compilation.interpret_lowered("f", inputs), compilation.interpret("f", inputs)
    for got, want in zip(found, meant, strict=True):
        np.testing.assert_allclose(got, want, rtol=0.01, atol=0.02)
