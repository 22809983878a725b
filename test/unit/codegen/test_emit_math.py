"""Every function of the language, as C++ from emission run on the host, against the interpreter."""

from __future__ import annotations

import ctypes as ct
import math

import numpy as np
import pytest
from hostmath import applied, host_functions, kernels_of

from mucc.compiler.driver import Compilation

EXPRESSIONS = (
    "x + y", "x - y", "x * y", "x / y", "x / 4", "x / 3", "-x", "0 - -x", "abs(x)", "min(x, y)", "max(x, y)",
    "pow(abs(x), y)", "pow(x, 2)", "pow(x, -3)", "pow(abs(x), 0.5)", "pow(abs(x), -0.5)", "pow(x, 0)",
    "exp(x)", "log(abs(x))", "sqrt(abs(x))", "rsqrt(abs(x))", "tanh(x)", "erf(x)", "sigmoid(x)",
    "gelu(x)", "gelu(x, approximate=tanh)", "softplus(x)", "softplus(x, beta=2.5)", "mish(x)", "relu(x)",
    "leaky_relu(x, slope=0.2)", "elu(x, alpha=1.5)", "selu(x)", "silu(x)", "softsign(x)", "hardsigmoid(x)",
    "hardswish(x)", "hardtanh(x, lo=-0.5, hi=2)", "clamp(x, -1, y)", "where(x > y, x, 2 * y)",
    "where(not (x <= 0) and y >= 0 or x == y, x, y)", "where(x != y and x < 1, x, y)",
    "cast(cast(x, bf16), f32)", "cast(cast(x, f16), f32)", "cast(x < y, f32)",
    "tanh(softplus(x)) + softplus(x)",
    "cast(cast(x, e4m3), f32)", "cast(cast(100 * x, e4m3), f32)", "cast(cast(0.003 * x, e4m3), f32)",
    "cast(cast(x, e5m2), f32)", "cast(cast(9000 * x, e5m2), f32)", "cast(cast(0.00003 * x, e5m2), f32)",
    "cast(cast(20 * x, s8), f32)", "cast(cast(20 * x, u8), f32)", "cast(cast(1000000000 * x, s32), f32)",
)  # fmt: skip

X = np.concatenate([np.linspace(-12, 12, 4001), np.array([0.0, -0.0, 1e-6, -1e-6, 60.0, -60.0])]).astype(
    np.float32
)
Y = np.roll(X, 1234)


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return kernels_of(EXPRESSIONS, "f32")


@pytest.fixture(scope="module")
def library(compilation: Compilation, tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    return host_functions(compilation, tmp_path_factory.mktemp("math"))


@pytest.mark.parametrize("index", range(len(EXPRESSIONS)), ids=EXPRESSIONS)
def test_a_function_agrees_with_the_interpreter(index: int, compilation: Compilation, library: ct.CDLL):
    with np.errstate(all="ignore"):
        (expected,) = compilation.interpret(f"f{index}", [X, Y])
    got = applied(library, f"f{index}", X, Y).astype(np.float64)
    with np.errstate(over="ignore"):
        single = expected.astype(np.float32).astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(single))
    assert np.array_equal(np.isinf(got), np.isinf(single))
    finite = np.isfinite(single)
    error = np.abs(got[finite] - single[finite])
    allowed = (3e-6 * np.abs(single) + 3e-6 * (1 + np.abs(X)))[finite]
    worst = int(np.argmax(error - allowed))
    assert (error <= allowed).all(), (
        X[finite][worst],
        Y[finite][worst],
        got[finite][worst],
        single[finite][worst],
    )


@pytest.mark.parametrize(
    "text", ["min(x, y)", "max(x, y)", "relu(x)", "clamp(x, -1, y)", "gelu(x)", "softplus(x)"]
)
def test_nan_is_kept(text: str, library: ct.CDLL):
    x = np.array([np.nan, 1.0, np.nan], dtype=np.float32)
    y = np.array([1.0, np.nan, np.nan], dtype=np.float32)
    got = applied(library, f"f{EXPRESSIONS.index(text)}", x, y)
    assert np.isnan(got[0]) and np.isnan(got[2])
    if "y" in text:
        assert np.isnan(got[1])


def test_gelu_is_as_exact_as_its_comment_says(library: ct.CDLL):
    x = np.concatenate([np.linspace(-9, 9, 20001), np.geomspace(1e-30, 1, 500)]).astype(np.float32)
    got = applied(library, f"f{EXPRESSIONS.index('gelu(x)')}", x, x).astype(np.float64)
    exact = np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()])
    rounding = np.abs(exact) * 2**-23
    assert (np.abs(got - exact) <= 2.5e-7 * np.abs(x) + rounding).all()
    assert (np.abs(got - exact) <= 1e-3 * np.abs(exact))[x < 0].all()


def test_gelu_keeps_infinity_and_vanishes_below(library: ct.CDLL):
    x = np.array([np.inf, 1e30, -40, -1e30], dtype=np.float32)
    got = applied(library, f"f{EXPRESSIONS.index('gelu(x)')}", x, x)
    assert got[0] == np.inf and got[1] == x[1]
    assert (np.abs(got[2:]) < 1e-21).all()
