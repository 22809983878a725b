"""Faster functions in scores: where they are taken, and how exact they are."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path

import numpy as np
import pytest
from hostmath import host_functions, kernels_of
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source

KERNEL = """
kernel f[S, T](q: f16[S, 32], k: f16[T, 32], v: f16[T, 32], b: f16[S, T]) -> f16[S, 32] {{
    return softmax({score}) @ v
}}
"""


def _text(score: str) -> str:
    return compile_text(Source("k.mcu", KERNEL.format(score=score))).emit("cu")


@pytest.mark.parametrize(
    "score",
    [
        "tanh(q @ k.T / 50) * 50",
        "100 + tanh(q @ k.T) * 20 - b",
        "where(b > 0, -tanh(q @ k.T), b) / 2",
        "max(tanh(q @ k.T), b)",
    ],
)
def test_an_absolute_error_is_enough_where_factors_are_small(score: str) -> None:
    assert "mucc::fast_tanh(" in _text(score)


@pytest.mark.parametrize(
    "score",
    [
        "tanh(q @ k.T / 1000) * 1000",
        "tanh(q @ k.T) / 0.001",
        "tanh(q @ k.T) * b",
        "log(tanh(q @ k.T) + 1)",
        "where(tanh(q @ k.T) > 0.5, b, 0)",
    ],
)
def test_functions_are_accurate_where_errors_may_grow(score: str) -> None:
    text = _text(score)
    assert "mucc::tanh(" in text
    assert "mucc::fast_tanh(" not in text


def test_results_are_not_computed_with_an_absolute_error() -> None:
    source = KERNEL.format(score="q @ k.T").replace("return", "return tanh(").replace("@ v", "@ v)")
    text = compile_text(Source("k.mcu", source)).emit("cu")
    assert "attention" in text
    assert "mucc::fast_tanh(" not in text


@pytest.mark.parametrize(
    ("score", "scale"),
    [
        ("tanh(q @ k.T * 0.25 / 50) * 50", "apply(product * 0.005f)"),  # a function of the product alone
        ("0.5 * (q @ k.T) + b", "kScale = 0.5f;"),
        ("q @ k.T / 4", "kScale = 0.25f;"),
        ("4 / (q @ k.T)", "apply(product * 1.0f)"),
        ("(q @ k.T) * 2 + tanh(q @ k.T)", "kScale = 1.0f;"),
    ],
)
def test_factors_of_the_product_are_its_scale(score: str, scale: str) -> None:
    assert scale in _text(score)


def test_fast_tanh_has_a_small_absolute_error(tmp_path: Path) -> None:
    more = """
    extern "C" void fast_tanh(int n, float const* x, float* out) {
      for (int i = 0; i < n; ++i) out[i] = mucc::fast_tanh(x[i]);
    }
    """
    library = host_functions(kernels_of(["x"], "f32"), tmp_path, more)
    x = np.concatenate([np.linspace(-20, 20, 100001), [0, 1e-6, 88, -88, 1e30, -1e30, np.inf, -np.inf]])
    x = x.astype(np.float32)
    out = np.empty_like(x)
    library.fast_tanh(len(x), x.ctypes.data_as(ct.c_void_p), out.ctypes.data_as(ct.c_void_p))
    assert np.abs(out - np.tanh(x.astype(np.float64))).max() < 2e-7
    assert (np.abs(out) <= 1).all()
    library.fast_tanh(
        1, np.array([np.nan], np.float32).ctypes.data_as(ct.c_void_p), out.ctypes.data_as(ct.c_void_p)
    )
    assert np.isnan(out[0])


def test_capped_scores_agree_with_the_interpreter(tmp_path: Path) -> None:
    program = Program.of(
        compile_text(Source("k.mcu", KERNEL.format(score="tanh(q @ k.T * 0.2 / 30) * 30 + b"))), tmp_path
    )
    program.library.on_host_sm_count(2)
    (info,) = program.kernels
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    run(program, info, {"S": 70, "T": 130}, seed=3, floats=floats, within=2**-9, align=16)
