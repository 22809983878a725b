"""Sums of products, and chains of products, that are computed with less work compute what they did."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.types import Dims
from mucc.passes.values import dims_of

SIZES = {"B": 3, "M": 12, "N": 16, "K": 24, "P": 5}
PARAMETERS = {
    "x": "f32[M, K]",
    "w": "f32[N, K]",
    "v": "f32[K, N]",
    "b": "f32[N]",
    "r": "f32[M]",
    "z": "f32[B, M, K]",
    "q": "f32[B, K, N]",
    "t": "f32[B, M, N]",
    "s": "f32[M, N]",
    "u": "bf16[M, K]",
    "h": "bf16[N, K]",
    "g": "bf16[N]",
    "e": "f32[1]",
}


def _products(out: str, body: str, seed: int = 0) -> list[Dims]:
    """Compare the meaning of a program with that of its stages and kernels; the extents of its products."""
    used = [name for name in PARAMETERS if re.search(rf"\b{name}\b", body)]
    parameters = ", ".join(f"{name}: {PARAMETERS[name]}" for name in used)
    dims = [d for d in SIZES if re.search(rf"\b{d}\b", parameters + out)]
    head = f"[{', '.join(dims)}]" if dims else ""
    compiled = compile_text(Source("t.mcu", f"kernel f{head}({parameters}) -> {out} {{ return {body} }}"))
    rng = np.random.default_rng(seed)
    inputs: list[np.ndarray] = []
    for name in used:
        extents = PARAMETERS[name].partition("[")[2][:-1].split(", ")
        value = rng.integers(-3, 4, [int(e) if e.isdigit() else SIZES[e] for e in extents]).astype(float)
        inputs.append(value + (3.5 if re.search(rf"/ {name}\b", body) else 0))
    (meant,), (computed,) = compiled.interpret("f", inputs), compiled.interpret_lowered("f", inputs)
    np.testing.assert_allclose(computed, meant, rtol=1e-5, atol=1e-5)
    return [dims_of(op.result) for op in compiled.stages.walk() if isinstance(op, MatmulOp)]


@pytest.mark.parametrize(
    ("out", "body"),
    [
        ("f32[M]", "sum(x @ w.T, axis=1)"),
        ("f32[M, 1]", "sum((x @ w.T + b) / 2, axis=1, keepdims=on) * 1.5"),
        ("f32[M]", "mean(x @ v - b, axis=-1)"),
        ("f32[N]", "sum(x @ v, axis=0)"),
        ("f32[N]", "mean(-(x @ w.T + b + s), axis=0)"),
        ("f32[]", "sum(x @ w.T + b)"),
        ("f32[]", "mean(b * (r[:, None] * (x @ w.T)) + e)"),
        ("f32[M]", "sum((x @ v) * b * r[:, None] / r[:, None], axis=1)"),
        ("f32[B, M]", "sum(z @ q + t + b, axis=2)"),
        ("f32[B, N]", "sum(z @ q, axis=1)"),
        ("f32[B, N]", "sum(r[:, None] * (z @ v) + t, axis=1)"),
        ("f32[B, M]", "mean(z @ w.T, axis=2)"),
        ("f32[B]", "sum(z @ q + 1, axis=(1, 2))"),
        ("f32[N]", "sum(z @ q, axis=(0, 1))"),
        ("f32[M]", "sum(t + x @ w.T, axis=(0, 2))"),
        ("f32[M]", "sum((x @ w.T) * 0.5 + x @ w.T, axis=1)"),
        ("f32[M]", "sum(x @ w.T + x @ v, axis=1)"),
        ("f32[M]", "sum(cast(u @ h.T + g, f32), axis=1)"),
        ("bf16[M]", "sum((u @ h.T) * g, axis=1)"),
        ("f32[M]", "mean(matmul(x, v, compute=f32) * e, axis=1)"),
        ("f32[M, 1]", "logsumexp(mean(x @ w.T, axis=1, keepdims=on), axis=1, keepdims=on)"),
    ],
)
def test_sums_of_products_multiply_no_matrices(out: str, body: str):
    assert not any({"M", "N"} <= {*dims} for dims in _products(out, body))


@pytest.mark.parametrize(
    ("out", "body"),
    [
        ("f32[M]", "sum(relu(x @ w.T), axis=1)"),
        ("f32[M]", "max(x @ w.T, axis=1)"),
        ("f32[M]", "sum((x @ w.T) * (x @ w.T), axis=1)"),
        ("f32[M]", "sum((x @ w.T) * s, axis=1)"),
        ("f32[N]", "sum(sigmoid(x @ w.T) * (x @ v) * r[:, None], axis=0)"),
        ("f32[M]", "sum(1 / (1 + x @ w.T), axis=1)"),
        ("f32[M, N]", "sum(z @ q, axis=0)"),
    ],
)
def test_what_is_not_linear_stays(out: str, body: str):
    assert _products(out, body)


def test_a_product_that_others_read_stays():
    text = """kernel f[M, N, K](x: f32[M, K], w: f32[N, K]) -> (a: f32[M, N], b: f32[M]) {
        y = x @ w.T return y, sum(y, axis=1)
    }"""
    stages = compile_text(Source("t.mcu", text)).stages
    assert [dims_of(op.result) for op in stages.walk() if isinstance(op, MatmulOp)] == [("M", "N")]


def test_many_uses_of_one_value_are_summed_once():
    doubled = " ".join(f"y{n + 1} = y{n} + y{n}" for n in range(40))
    text = f"""kernel f[M, N, K](x: f32[M, K], w: f32[N, K]) -> f32[M] {{
        y0 = x @ w.T {doubled} return sum(y40, axis=1)
    }}"""
    stages = compile_text(Source("t.mcu", text)).stages
    assert not any(isinstance(op, MatmulOp) for op in stages.walk())


def test_small_products_stay():
    text = "kernel f(x: f32[64, 64], w: f32[64, 64]) -> f32[64] { return sum(x @ w.T, axis=1) }"
    stages = compile_text(Source("t.mcu", text)).stages
    assert any(isinstance(op, MatmulOp) for op in stages.walk())


def _pooled(body: str, columns: int) -> list[Dims]:
    """Compile and compare a pool of a linear layer with 64 columns and a run-time number of rows."""
    text = f"""kernel f[M](x: f32[M, 4096], w: f32[64, 4096], b: f32[64]) -> f32[M, {columns}] {{
        h = x @ w.T + b return {body}
    }}"""
    compiled = compile_text(Source("t.mcu", text))
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-3, 4, shape).astype(float) for shape in ((6, 4096), (64, 4096), (64,))]
    (meant,), (computed,) = compiled.interpret("f", inputs), compiled.interpret_lowered("f", inputs)
    np.testing.assert_allclose(computed, meant, rtol=1e-4, atol=1e-3)
    return [dims_of(op.result) for op in compiled.stages.walk() if isinstance(op, MatmulOp)]


@pytest.mark.parametrize(
    ("body", "columns", "product"),
    [
        ("avg_pool(h[:, None, :], 16)[:, 0, :]", 4, 4),
        ("gelu(avg_pool(h[:, None, :], 8, divisor=3)[:, 0, :])", 8, 8),
        ("mean(reshape(h * 2, (M, 8, 8)), axis=2)", 8, 8),
        ("sum(reshape(h, (M, 8, 8)) * 0.5, axis=-1)", 8, 8),
        ("sum(reshape(h, (M, 8, 8)), axis=1)", 8, 64),
        ("avg_pool(h[:, None, :] * 2, 64)[:, 0, :]", 1, None),
        ("avg_pool(h[:, None, :], 8, stride=4)[:, 0, :]", 15, 64),
        ("avg_pool(h[:, None, :], 16, pad=8)[:, 0, :]", 5, 64),
        ("max_pool(h[:, None, :], 16)[:, 0, :]", 4, 64),
    ],
)
def test_average_pools_of_products(body: str, columns: int, product: int | None):
    assert _pooled(body, columns) == ([] if product is None else [("M", product)])


def test_pools_of_products_in_16_bits_stay():
    """Their sums of weights would be rounded to 16 bits."""
    for x, w in (("x", "w"), ("cast(x, f32)", "cast(w, f32)")):
        text = f"""kernel f[M](x: bf16[M, 4096], w: bf16[64, 4096]) -> bf16[M, 4] {{
            return avg_pool(({x} @ {w}.T)[:, None, :], 16)[:, 0, :]
        }}"""
        stages = compile_text(Source("t.mcu", text)).stages
        assert [dims_of(op.result) for op in stages.walk() if isinstance(op, MatmulOp)] == [("M", 64)]


@pytest.mark.parametrize(
    ("sizes", "body", "inner"),
    [
        ((8192, 64, 8192, 64), "(a @ b) @ c", (64, 64)),
        ((8192, 64, 8192, 64), "a @ (b @ c)", (64, 64)),
        ((64, 8192, 64, 8192), "a @ (b @ c)", (64, 64)),
        ((512, 512, 512, 512), "(a @ b) @ c", (512, 512)),
        ((4096, 64, 4096, 64), "(b.T @ a.T).T @ c", (64, 64)),
        ((512, 512, 512, 512), "(b.T @ a.T).T @ c", (512, 512)),
    ],
)
def test_three_matrices_in_the_better_order(sizes: Sequence[int], body: str, inner: tuple[int, int]):
    m, k, n, p = sizes
    text = (
        f"kernel f(a: f32[{m}, {k}], b: f32[{k}, {n}], c: f32[{n}, {p}]) -> f32[{m}, {p}] {{ return {body} }}"
    )
    stages = compile_text(Source("t.mcu", text)).stages
    assert [dims_of(op.result) for op in stages.walk() if isinstance(op, MatmulOp)] == [inner, (m, p)]


@settings(max_examples=examples(25))
@given(st.data())
def test_random_linear_expressions(data: st.DataObject):
    """Sums of random linear expressions in a product have the value of the sums of its elements."""
    value = data.draw(st.sampled_from(["(x @ w.T)", "(x @ v)", "matmul(x, v, compute=f32)"]))
    for _ in range(data.draw(st.integers(0, 4))):
        step = data.draw(
            st.sampled_from(
                ["({} + b)", "(s - {})", "({} * r[:, None])", "({} / 4)", "({} * b)", "(-{})", "(2 * {} + e)"]
            )
        )
        value = step.format(value)
    axis, out = data.draw(st.sampled_from([("0", "f32[N]"), ("1", "f32[M]"), ("(0, 1)", "f32[]")]))
    kind = data.draw(st.sampled_from(["sum", "mean"]))
    products = _products(out, f"{kind}({value}, axis={axis})", data.draw(st.integers(0, 99)))
    assert ("M", "N") not in products
