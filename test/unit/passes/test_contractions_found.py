"""Sums of products that become contractions, and products that lose their casts, compute what they did."""

from __future__ import annotations

import re

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.contraction import MatmulOp

SIZES = {"B": 3, "M": 12, "N": 16, "K": 24}

SUMS = (
    # parameters, result, expression, format of the product
    ("a: f32[M, K], b: f32[K, N]", "f32[M, N]", "sum(a[:, :, None] * b[None, :, :], axis=1)", "f32"),
    ("a: f32[M, K], b: f32[N, K]", "f32[N, M]", "sum(a[None, :, :] * b[:, None, :], axis=-1)", "f32"),
    ("a: f32[K, M], b: f32[K, N]", "f32[M, N]", "sum(2 * a[:, :, None] * b[:, None, :], axis=0)", "f32"),
    ("a: bf16[M, K], b: bf16[K, N]", "f32[M, N]", "sum(a[:, :, None] * b, axis=1)", "bf16"),
    (
        "a: f16[M, K], b: f16[K, N]",
        "f16[M, N]",
        "sum(cast(a, f32)[:, :, None] * cast(b, f32), axis=1)",
        "f16",
    ),
    ("a: bf16[M, K], b: f32[K, N]", "f32[M, N]", "sum(a[:, :, None] * b, axis=1)", "f32"),
    ("a: bf16[M, K], b: bf16[K, N]", "f32[M, N]", "sum((2 * a)[:, :, None] * b, axis=1)", "f32"),
    (
        "a: f32[B, M, K], b: f32[B, K, N]",
        "f32[B, M, N]",
        "sum(a[:, :, :, None] * b[:, None, :, :], axis=2)",
        "f32",
    ),
    ("a: f32[B, M, K], b: f32[K, N]", "f32[B, M, N]", "sum(a[:, :, :, None] * b, axis=2)", "f32"),
    ("a: f32[M, B, K], b: f32[B, K, N]", "f32[M, B, N]", "sum(a[:, :, :, None] * b, axis=2)", "f32"),
    (
        "a: f32[N, K], b: f32[K, B, M]",
        "f32[B, N, M]",
        "sum(permute(a, (1, 0))[:, None, :, None] * b[:, :, None, :], axis=0)",
        "f32",
    ),
    (
        "a: f32[M, K], b: f32[K, N], s: f32[K], r: f32[M]",
        "f32[M, N]",
        "sum(a[:, :, None] * b * s[:, None] * r[:, None, None], axis=1)",
        "f32",
    ),
    (
        "a: f32[M, K], b: f32[K, N], r: f32[M]",
        "f32[M, 1, N]",
        "sum(a[:, :, None] * b / r[:, None, None], axis=1, keepdims=on)",
        "f32",
    ),
    ("a: f32[M, 16], b: f32[16, N]", "f32[M, N]", "mean(a[:, :, None] * b, axis=1)", "f32"),
    ("a: f32[M, 4, 16], b: f32[4, 16, N]", "f32[M, N]", "sum(a[:, :, :, None] * b, axis=(1, 2))", "f32"),
    ("a: f32[M, 4, 16], b: f32[16, N]", "f32[M, N]", "sum(a[:, :, :, None] * b, axis=(1, 2))", "f32"),
    ("a: f32[M, K, 1], b: f32[1, K, N]", "f32[M, N]", "sum(a * b, axis=1)", "f32"),
    (
        "a: f32[M, 1, K], b: f32[N, K]",
        "f32[M, N]",
        "sum(broadcast(a, (M, N, K)) * broadcast(b, (M, N, K)), axis=2)",
        "f32",
    ),
    ("a: f32[M, K], b: f32[M, K]", "f32[M]", "sum(a * b, axis=1)", None),
    ("a: f32[M, K], b: f32[K]", "f32[M]", "sum(a * b, axis=1)", None),
    ("a: f32[B, M, K], b: f32[B, K]", "f32[B, M]", "sum(a * b[:, None, :], axis=2)", None),
    ("a: f32[M, K], b: f32[K, 4]", "f32[M, 4]", "sum(a[:, :, None] * b, axis=1)", None),
    ("a: f32[M, K]", "f32[M]", "sum(a * a, axis=1)", None),
)


def _check(parameters: str, out: str, body: str, seed: int = 0) -> list[str]:
    """Compare the meaning of a program with that of its lowered form; the formats of its products."""
    dims = [d for d in SIZES if re.search(rf"\b{d}\b", parameters)]
    text = f"kernel f[{', '.join(dims)}]({parameters}) -> {out} {{ return {body} }}"
    compiled = compile_text(Source("t.mcu", text))
    rng = np.random.default_rng(seed)
    inputs: list[np.ndarray] = []
    for extents in re.findall(r"\w+: \w+\[([^\]]*)\]", parameters):
        shape = [int(e) if e.isdigit() else SIZES[e] for e in extents.split(", ")]
        value = rng.integers(-3, 4, shape).astype(float)
        inputs.append(value + (3.5 if len(shape) == 1 and "/" in body else 0))
    (meant,), (computed,) = compiled.interpret("f", inputs), compiled.interpret_lowered("f", inputs)
    np.testing.assert_allclose(computed, meant, rtol=1e-6, atol=1e-9)
    return [op.compute.data.value for op in compiled.stages.walk() if isinstance(op, MatmulOp)]


@pytest.mark.parametrize(("parameters", "out", "body", "compute"), SUMS, ids=[s[2] for s in SUMS])
def test_sums_of_broadcast_products(parameters: str, out: str, body: str, compute: str | None):
    assert _check(parameters, out, body) == ([compute] if compute else [])


@settings(max_examples=examples(20))
@given(st.permutations("BMNK"), st.permutations("MKB"), st.permutations("KNB"), st.integers(0, 99))
def test_axes_may_stand_anywhere(order: list[str], left: list[str], right: list[str], seed: int):
    """An einsum: two operands with axes in any order, brought into the order of the product by views."""

    def operand(name: str, own: list[str]) -> str:
        kept = [a for a in order if a in own]
        picked = ", ".join(":" if a in own else "None" for a in order)
        return f"permute({name}, ({', '.join(str(own.index(a)) for a in kept)}))[{picked}]"

    parameters = f"a: f32[{', '.join(left)}], b: f32[{', '.join(right)}]"
    out = f"f32[{', '.join(a for a in order if a != 'K')}]"
    body = f"sum({operand('a', left)} * {operand('b', right)}, axis={order.index('K')})"
    assert _check(parameters, out, body, seed) == ["f32"]


CASTS = (
    ("x: bf16[M, K], w: bf16[N, K]", "matmul(cast(x, f32), cast(w, f32).T, compute=f32)", "bf16"),
    ("x: f16[M, K], w: f16[K, N]", "cast(x, f32) @ cast(w, f32)", "f16"),
    ("x: e4m3[M, K], w: e5m2[N, K]", "cast(x, f32) @ cast(w.T, f32)", "e5m2"),
    ("x: e4m3[M, K], w: e4m3[N, K]", "matmul(cast(x, f32), cast(w.T, f32), compute=f32)", "f16"),
    ("x: s8[M, 32], w: s8[N, 32]", "cast(x, f32) @ cast(w, f32).T", "s8"),
    ("x: s8[M, K], w: s8[N, K]", "cast(x, f32) @ cast(w, f32).T", "bf16"),
    ("x: bf16[M, K], w: s8[N, K]", "cast(x, f32) @ cast(w, f32).T", "bf16"),
    ("x: bf16[M, K], w: u8[N, K]", "cast(x @ cast(w, bf16).T, f32)", "bf16"),
    ("x: bf16[M, K], w: f16[N, K]", "matmul(cast(x, f32), cast(w, f32).T, compute=f32)", "f32"),
    ("x: bf16[M, K], w: f32[N, K]", "cast(x, f32) @ w.T", "tf32"),
)


@pytest.mark.parametrize(("parameters", "body", "compute"), CASTS, ids=[c[1] + c[2] for c in CASTS])
def test_products_of_widened_operands(parameters: str, body: str, compute: str):
    assert _check(parameters, "f32[M, N]", body) == [compute]
