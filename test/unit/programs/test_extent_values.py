"""Run-time extents as numbers, in expressions, means and norms: at every level, and run on the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from on_host import Program, run

from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics import Source
from mucc.frontend.source import module_text

POINTWISE = """
kernel parts[M, K](x: bf16[M, K]) -> (
    a: f32[M], b: f32[M], c: f32[M, K], d: f32[K], e: f32[], f: bf16[M, K],
) {
    c = x / K
    v = var(x, axis=0, correction=0)
    return mean(x, axis=1), var(x, axis=1, correction=0), c + M, v, mean(x), max(c, x)
}

kernel whole[M, K](i: s32[M, K]) -> (a: s32[M, K], b: s32[K], c: f32[M]) {
    return i * K + M, sum(i - K, axis=0), mean(i * M, axis=1)
}

kernel running[M, K](x: f32[M, K]) -> f32[M, K] {
    return cumsum(x * K, axis=1) / M
}
"""

PRODUCT = """
kernel product[M, N, K](x: bf16[M, K], w: bf16[N, K], b: f32[N]) -> f32[M, N]
    where K % 8 == 0, N % 8 == 0
{
    return x @ w.T / K + b * M - N
}
"""


def compiled(text: str, target: str = "sm_90a") -> Compilation:
    return compile_text(Source("k.mcu", text), Options(target))


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compiled(POINTWISE), tmp_path_factory.mktemp("extents"))


@pytest.mark.parametrize("dims", [{"M": 4, "K": 16}, {"M": 2, "K": 2}, {"M": 64, "K": 8}], ids=str)
def test_maps_reductions_and_scans_compute_with_extents(on_host: Program, dims: dict[str, int]) -> None:
    # Powers of two, of which reciprocals are exact.
    for info in on_host.kernels[1:]:
        run(on_host, info, dims, 0)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "schedule product for sm_90a { mainloop = multistage }",
        "schedule product for sm_90a { mainloop = skinny }",
    ],
    ids=["chosen", "multistage", "skinny"],
)
def test_epilogues_compute_with_extents(schedule: str, target: str, tmp_path: Path) -> None:
    compilation = compiled(PRODUCT + schedule.replace("sm_90a", target), target)
    assert "extent_K" in compilation.emit("cu")
    if "skinny" in schedule:
        return
    program = Program.of(compilation, tmp_path)
    run(program, program.kernels[0], {"M": 4, "N": 16, "K": 32}, 0)


NORMS: dict[str, Callable[[Any], Any]] = {
    "mean(x)": lambda x: x.mean(),
    "mean(x, axis=(0, 2))": lambda x: x.mean((0, 2)),
    "var(x, axis=1)": lambda x: x.var(1, ddof=1),
    "var(x, axis=(1, 2), correction=0)": lambda x: x.var((1, 2)),
    "softmax(x)": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "layer_norm(x)": lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "rms_norm(x, axis=(1, 2))": lambda x: x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-5),
    "batch_norm(x)": lambda x: (
        (x - x.mean((0, 2), keepdims=True)) / np.sqrt(x.var((0, 2), keepdims=True) + 1e-5)
    ),
    "instance_norm(x)": lambda x: (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5),
}


@pytest.mark.parametrize("expression", NORMS)
def test_norms_over_run_time_dims_mean_the_same_at_every_level(expression: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    want = np.asarray(NORMS[expression](x.astype(np.float64)))
    shape = (
        {0: "", 1: "C", 3: "N, C, L"}[want.ndim]
        if "var" not in expression
        else ("N, L" if want.ndim == 2 else "N")
    )
    compilation = compiled(f"kernel f[N, C, L](x: f32[N, C, L]) -> f32[{shape}] {{ return {expression} }}")
    for level in (compilation.interpret, compilation.interpret_lowered):
        (got,) = level("f", [x])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    assert "mucc::" in compilation.emit("cu")


def test_the_variance_of_one_element_is_nan() -> None:
    compilation = compiled("kernel f[M, K](x: f32[M, K]) -> f32[M] { return var(x, axis=1) }")
    with np.errstate(all="ignore"):
        for level in (compilation.interpret, compilation.interpret_lowered):
            assert np.isnan(level("f", [np.ones((2, 1), np.float32)])[0]).all()


def test_torch_tensors_are_interpreted_alike() -> None:
    torch = pytest.importorskip("torch")
    compilation = compiled(
        "kernel f[M, K](x: f32[M, K]) -> (a: f32[M], b: f32[M, K]) { return mean(x, axis=1), x / K }"
    )
    x = torch.arange(12.0).reshape(3, 4)
    a, b = compilation.interpret("f", [x])
    assert torch.equal(a, x.double().mean(1)) and torch.equal(b, x.double() / 4)


def test_an_extent_is_spelled_as_its_dim() -> None:
    text = "kernel f[M, K](x: f32[M, K]) -> f32[M, K] { return (x - M) / K }"
    assert "return (x - M) / K" in module_text(compiled(text).mu)
