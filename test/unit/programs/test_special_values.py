"""Functions at special values: the interpreter, emitted C++ on the host, and PyTorch."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostmath import applied, host_functions, kernels_of

from mucc.compiler.driver import Compilation

UNARY = (
    "-x",
    "abs(x)",
    "exp(x)",
    "expm1(x)",
    "log(x)",
    "log1p(x)",
    "sqrt(x)",
    "rsqrt(x)",
    "tanh(x)",
    "erf(x)",
    "sigmoid(x)",
    "gelu(x)",
    "gelu(x, approximate=tanh)",
    "softplus(x)",
    "softplus(x, beta=2)",
    "relu(x)",
    "leaky_relu(x)",
    "elu(x)",
    "selu(x)",
    "silu(x)",
    "softsign(x)",
    "mish(x)",
    "hardsigmoid(x)",
    "hardswish(x)",
    "hardtanh(x)",
    "clamp(x, -1, 1)",
    "pow(x, 0.5)",
    "pow(x, -0.5)",
    "pow(x, 0)",
    "pow(x, 2)",
    "pow(x, 3)",
    "pow(x, -1)",
    "pow(x, -2)",
    "pow(x, -3)",
    "pow(x, 0.25)",
    "pow(x, -1.5)",
    "pow(x, inf)",
    "pow(2, x)",
    "softplus(x, beta=-1)",
    "x / 4",
    "x / 3",
    "x / 1.401298464324817e-45",
    "1 / x",
    "inf * x",
    "x - inf",
    "tanh(softplus(x))",
    "where(x > 0, x, 1)",
    "where(not (x > 0), x, 1)",
    "cast(x == x, f32)",
    "cast(x != x, f32)",
    "cast(x < inf, f32)",
    "cast(x == 0 and x <= 0, f32)",
    "cast(cast(x, bf16), f32)",
    "cast(cast(x, f16), f32)",
    "cast(cast(x, e4m3), f32)",
    "cast(cast(x, e5m2), f32)",
    "cast(cast(x, s8), f32)",
    "cast(cast(x, u8), f32)",
    "cast(cast(x, s32), f32)",
)
BINARY = (
    "x + y",
    "x - y",
    "x * y",
    "x / y",
    "min(x, y)",
    "max(x, y)",
    "pow(x, y)",
    "clamp(x, y, 1)",
    "clamp(1, x, y)",
    "cast(x < y, f32)",
    "cast(x <= y, f32)",
    "cast(x > y, f32)",
    "cast(x >= y, f32)",
    "cast(x == y, f32)",
    "cast(x != y, f32)",
    "where(x < y, x, y)",
)
EXPRESSIONS = (*UNARY, *BINARY)

LEAST, TINY, MOST = np.float32(1e-45), np.float32(2.0**-126), np.finfo(np.float32).max
SIZES = [
    0.0,
    LEAST,
    1e-40,
    TINY,
    1e-30,
    1e-7,
    0.25,
    0.5,
    1.0,
    1.5,
    2.0,
    2.5,
    3.0,
    10.5,
    87.0,
    89.0,
    104.0,
    127.5,
    128.5,
    255.5,
    448.0,
    465.0,
    57344.0,
    65520.0,
    2.0**24,
    2.0**24 + 2,
    2.0**31,
    1e10,
    1e30,
    MOST,
    np.inf,
]
VALUES = np.array([*SIZES, *(-v for v in SIZES), np.nan], np.float32)
X, Y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(VALUES, VALUES))


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return kernels_of(EXPRESSIONS, "f32")


@pytest.fixture(scope="module")
def library(compilation: Compilation, tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    return host_functions(compilation, tmp_path_factory.mktemp("special"))


def single(values: Any) -> Any:
    """Numbers as f32, in float64."""
    return np.asarray(values, np.float32).astype(np.float64)


def differing(got: Any, want: Any) -> Any:
    """Where two results are not the same kind of number, or not as near as kernels are.

    Numbers below the normal ones of f32 are as good as zero.
    """
    got, want = single(got), single(want)
    kinds = (np.isnan(got) != np.isnan(want)) | (np.isinf(got) != np.isinf(want))
    kinds |= np.isinf(got) & np.isinf(want) & (got != want)
    finite = np.isfinite(got) & np.isfinite(want)
    far = np.abs(np.where(finite, got - want, 0)) > 2e-5 * np.abs(np.where(finite, want, 0)) + 5e-7 * (
        np.abs(want) < 10
    )
    return kinds | (finite & far)


def shown(found: Any, *columns: Any) -> list[tuple[float, ...]]:
    return [tuple(float(c[i]) for c in columns) for i in np.flatnonzero(found)[:6]]


@pytest.mark.parametrize("index", range(len(EXPRESSIONS)), ids=EXPRESSIONS)
def test_the_interpreter_and_emitted_code_agree(index: int, compilation: Compilation, library: ct.CDLL):
    x, y = (X, Y) if EXPRESSIONS[index] in BINARY else (VALUES, VALUES)
    with np.errstate(all="ignore"):
        (want,) = compilation.interpret(f"f{index}", [x, y])
        (lowered,) = compilation.interpret_lowered(f"f{index}", [x, y])
        got = applied(library, f"f{index}", x, y)
        assert not (found := differing(lowered, want)).any(), shown(found, x, y, lowered, want)
        assert not (found := differing(got, want)).any(), shown(found, x, y, got, want)


def _torch_functions(torch: Any) -> dict[str, Callable[..., Any]]:
    f = torch.nn.functional
    functions: dict[str, Callable[[Any], Any]] = {
        "exp(x)": torch.exp,
        "expm1(x)": torch.expm1,
        "log(x)": torch.log,
        "log1p(x)": torch.log1p,
        "sqrt(x)": torch.sqrt,
        "rsqrt(x)": torch.rsqrt,
        "tanh(x)": torch.tanh,
        "erf(x)": torch.erf,
        "sigmoid(x)": torch.sigmoid,
        "gelu(x)": f.gelu,
        "gelu(x, approximate=tanh)": lambda x: f.gelu(x, approximate="tanh"),
        "softplus(x)": f.softplus,
        "relu(x)": f.relu,
        "leaky_relu(x)": f.leaky_relu,
        "elu(x)": f.elu,
        "selu(x)": f.selu,
        "silu(x)": f.silu,
        "softsign(x)": f.softsign,
        "mish(x)": f.mish,
        "hardsigmoid(x)": f.hardsigmoid,
        "hardswish(x)": f.hardswish,
        "hardtanh(x)": f.hardtanh,
        "clamp(x, -1, 1)": lambda x: x.clamp(-1, 1),
        "pow(x, 0.5)": lambda x: x.pow(0.5),
        "pow(x, -0.5)": lambda x: x.pow(-0.5),
        "pow(x, 0)": lambda x: x.pow(0),
        "pow(x, 3)": lambda x: x.pow(3),
        "pow(x, -1)": lambda x: x.pow(-1),
        "pow(x, -2)": lambda x: x.pow(-2),
        "pow(x, 0.25)": lambda x: x.pow(0.25),
        "pow(2, x)": lambda x: torch.pow(2, x),
        "x / 3": lambda x: x / 3,
        "1 / x": lambda x: 1 / x,
        "cast(cast(x, bf16), f32)": lambda x: x.bfloat16().float(),
        "cast(cast(x, f16), f32)": lambda x: x.half().float(),
    }
    binary: dict[str, Callable[[Any, Any], Any]] = {
        "x / y": torch.div,
        "min(x, y)": torch.minimum,
        "max(x, y)": torch.maximum,
        "pow(x, y)": torch.pow,
        "x * y": torch.mul,
        "x - y": torch.sub,
    }
    return {**functions, **binary}


def test_pytorch_agrees(compilation: Compilation) -> None:
    torch = pytest.importorskip("torch")
    wrong: dict[str, Any] = {}
    for text, function in _torch_functions(torch).items():
        x, y = (X, Y) if text in BINARY else (VALUES, VALUES)
        with np.errstate(all="ignore"):
            (meant,) = compilation.interpret(f"f{EXPRESSIONS.index(text)}", [x, y])
            # In float64 functions of PyTorch overflow where those of f32 do not.
            given = [torch.from_numpy(v) for v in ((x, y) if text in BINARY else (x,))]
            want = function(*given).numpy()
            found = differing(meant, want)
        found &= np.abs(x) < 1e38  # PyTorch's hardswish overflows there
        if found.any():
            wrong[text] = shown(found, x, y, meant, want)
    assert not wrong


def test_reductions_keep_nan() -> None:
    kernel = kernels_of(["max(x) + 0 * y", "min(x) + 0 * y", "amax(x) + 0 * y"], "f32")
    x = np.array([1.0, np.nan, -2.0], np.float32)
    for i in range(3):
        for interpret in (kernel.interpret, kernel.interpret_lowered):
            assert np.isnan(interpret(f"f{i}", [x, np.ones(3, np.float32)])[0]).all()
