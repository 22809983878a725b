"""Maps that do not need each other are one launch, and compute what they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import kernel_names
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source

ROTARY = """
fn turned(x, c, s) { return x * c + concat(-x[..., 4:], x[..., :4], axis=-1) * s }
kernel f[B, S](q: f32[B, S, 8], k: f32[B, S, 8], c: f32[S, 8], s: f32[S, 8]) -> f32[B, S, S] {
  return sigmoid(turned(q, c, s) @ permute(turned(k, c, s), (0, 2, 1)))
}
"""


def _maps(text: str) -> int:
    return kernel_names(text).count("map")


@pytest.mark.parametrize(
    ("body", "maps"),
    [
        ("stage p = x @ w return (relu(p) + sin(x)) @ tanh(y)", 1),
        ("return cumsum(relu(x) @ sin(y), axis=1) @ (sin(x) @ tanh(y))", 1),
        ("return relu(x) @ sin(y)", 1),
        ("return relu(x) @ cumsum(y, axis=1) + sin(y) @ tanh(relu(x) @ w)", 1),
    ],
    ids=["the first waits", "four operands", "two operands", "others between"],
)
def test_how_many_maps_there_are(body: str, maps: int):
    text = f"kernel f(x: f32[64, 64], y: f32[64, 64], w: f32[64, 64]) -> f32[64, 64] {{ {body} }}"
    assert _maps(text) == maps
    compiled = compile_text(Source("t.mcu", text))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((64, 64)) for _ in range(3)]
    (meant,), (computed,) = compiled.interpret("f", inputs), compiled.interpret_lowered("f", inputs)
    np.testing.assert_allclose(computed, meant, rtol=0.05, atol=0.05 * float(np.abs(meant).max()))


def test_rotary_embeddings_of_queries_and_keys_are_one_launch():
    assert _maps(ROTARY) == 1


def test_a_pinned_map_stays():
    text = """kernel f(x: f32[64, 64], y: f32[64, 64]) -> f32[64, 64] {
        stage a = relu(x) stage b = sin(y) return a @ b
    }"""
    assert _maps(text) == 2


def test_one_kernel_stores_both_on_the_host(tmp_path: Path):
    text = """kernel f[M, N](x: f32[M, N], y: bf16[M, N]) -> (a: f32[M, N], b: f32[M, N]) {
        return cumsum(relu(x) * 2, axis=1), cumsum(cast(y, f32) - 1, axis=0)
    }"""
    program = Program.of(compile_text(Source("t.mcu", text)), tmp_path)
    for info in program.kernels:
        for seed, (m, n) in enumerate(((1, 1), (5, 7), (16, 64))):
            run(program, info, {"M": m, "N": n}, seed)
