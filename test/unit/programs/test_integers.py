"""Integers of 32 bits: interpreters and emitted C++, run on the host, against NumPy."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostmath import applied, host_functions, kernels_of

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import DiagnosticError, Source

LEAST, MOST = -(2**31), 2**31 - 1
EDGES = [
    0,
    1,
    -1,
    2,
    7,
    -7,
    2**24,
    2**24 + 1,
    -(2**24) - 1,
    123456789,
    2**30,
    MOST,
    MOST - 1,
    LEAST,
    LEAST + 1,
]
X, Y = (a.reshape(-1).astype(np.int32) for a in np.meshgrid(EDGES, EDGES))


def _low_or_y(x: Any, y: Any) -> Any:
    result: Any = np.where(x < 16777217, x, y)
    return result


EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x * x * y - 3": lambda x, y: x * x * y - np.int32(3),
    "-x": lambda x, y: -x,
    "abs(x)": lambda x, y: np.abs(x),
    "min(x, y)": np.minimum,
    "max(x, 5)": lambda x, y: np.maximum(x, np.int32(5)),
    "where(x > 0, x, 0)": lambda x, y: np.where(x > 0, x, np.int32(0)),
    "where(x == y + 1, x, -2147483648)": lambda x, y: np.where(x == y + 1, x, np.int32(LEAST)),
    "where(x < 16777217, x, y)": _low_or_y,
    "relu(x)": lambda x, y: np.maximum(x, 0),
    "clamp(x, -9, y)": lambda x, y: np.minimum(np.maximum(x, np.int32(-9)), y),
    "x % y": np.remainder,
    "fmod(x, y)": np.fmod,
    "floor_divide(x, y)": np.floor_divide,
    "floor_divide(x, -1)": lambda x, y: np.floor_divide(x, np.int32(-1)),
    "left_shift(x, y)": np.left_shift,
    "right_shift(x, y)": np.right_shift,
    "bitwise_xor(x, bitwise_not(y))": lambda x, y: x ^ ~y,
    "cast(x > y, s32) + x": lambda x, y: (x > y).astype(np.int32) + x,
    "cast(cast(x, f32), s32)": lambda x, y: np.clip(x.astype(np.float32).astype(np.float64), LEAST, MOST),
    "cast(cast(x, s8), s32) * y": lambda x, y: np.clip(x, -128, 127) * y,
    "cast(cast(x, f32) / 2, s32)": lambda x, y: np.rint(x.astype(np.float32) / 2),
}


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return kernels_of(list(EXPRESSIONS), "s32")


FOLDS = "\n".join(
    f'extern "C" void fold_{kind}(int n, float const* x, float* out) {{\n'
    f"  using R = mucc::{kind};\n  float a = R::identity;\n"
    "  for (int i = 0; i < n; ++i) a = R::combine(a, R::first(x[i]));\n  *out = a;\n}"
    for kind in ("IntegerSum", "IntegerMax", "IntegerMin", "IntegerAmax")
)


@pytest.fixture(scope="module")
def library(compilation: Compilation, tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    # Without the unsigned detour of sums and products a sanitizer would end the test.
    flags = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    return host_functions(compilation, tmp_path_factory.mktemp("integers"), FOLDS, *flags)


def _pointer(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ct.c_void_p)


@pytest.mark.parametrize("index", range(len(EXPRESSIONS)), ids=EXPRESSIONS)
def test_arithmetic_of_integers_is_exact_and_wraps(index: int, compilation: Compilation, library: ct.CDLL):
    with np.errstate(all="ignore"):
        expected = np.asarray(list(EXPRESSIONS.values())[index](X, Y)).clip(LEAST, MOST).astype(np.int64)
        (meant,) = compilation.interpret(f"f{index}", [X, Y])
        (lowered,) = compilation.interpret_lowered(f"f{index}", [X, Y])
    rounded = np.clip(np.rint(meant), LEAST, MOST)
    assert np.array_equal(rounded, expected)
    assert np.array_equal(lowered, expected)
    assert np.array_equal(applied(library, f"f{index}", X, Y), expected)


def test_torch_agrees() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    for text in ("x + y", "x - y", "x * y", "-x"):
        want = {"x + y": x + y, "x - y": x - y, "x * y": x * y, "-x": -x}[text]
        source = f"kernel f[N](x: s32[N], y: s32[N]) -> s32[N] {{ return {text} }}"
        (got,) = compile_text(Source("f.mcu", source)).interpret("f", [x, y])
        assert torch.equal(got, want.double()), text


def _largest(values: Any) -> Any:
    return np.abs(values).max()


@pytest.mark.parametrize("kind", ["Sum", "Max", "Min", "Amax"])
def test_reductions_of_integers_are_exact(kind: str, library: ct.CDLL) -> None:
    text = f"kernel f[N](x: s32[N]) -> s32[] {{ return {kind.lower()}(x) }}"
    compilation = compile_text(Source("f.mcu", text))
    assert f"mucc::Integer{kind}" in compilation.emit("cu")
    values = np.array([5, 2**24 + 1, -(2**30), 2**30, 2**30, 77, MOST], np.int32)
    exact = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Amax": _largest}[kind](values)
    want = int(np.int64(exact).astype(np.int32))
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        assert interpret("f", [values])[0] == want
    out = np.empty(1, np.int32)
    getattr(library, f"fold_Integer{kind}")(len(values), _pointer(values), _pointer(out))
    assert out[0] == want


def test_the_quotient_of_integers_is_refused() -> None:
    for body in ("x / 2", "1 / x", "x / x"):
        with pytest.raises(DiagnosticError) as caught:
            compile_text(Source("f.mcu", f"kernel f[N](x: s32[N]) -> s32[N] {{ return {body} }}"))
        assert caught.value.diagnostics[0].code == "MU1029"


def test_arithmetic_on_numbers_is_a_number() -> None:
    text = """kernel f[N, K=100](x: s32[N]) -> (a: s32[N], b: s32[N], c: f32[N]) {
        groups = floor_divide(K, 7)
        return x * (K - 1) + 2 * 8, x % -(K % 7) + groups, x * (K / 8)
    }"""
    compilation = compile_text(Source("f.mcu", text))
    x = np.array([3, -8, 2**30], np.int32)
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        a, b, c = interpret("f", [x])
        assert a.tolist() == [3 * 99 + 16, -8 * 99 + 16, -(2**30) + 16]
        assert b.tolist() == [3 % -2 + 14, -8 % -2 + 14, 2**30 % -2 + 14]
        assert c.tolist() == [37.5, -100, 12.5 * 2**30]


def test_bits_of_narrow_integers_are_those_of_s32() -> None:
    text = """kernel f[N](u: u8[N], s: s8[N]) -> (a: u8[N], b: s32[N], c: s8[N], d: f32[N]) {
        return bitwise_and(u, 15), bitwise_not(u), right_shift(s, 4), bitwise_xor(u, s) * 0.5
    }"""
    compilation = compile_text(Source("f.mcu", text))
    u, s = np.array([0, 255, 170], np.uint8), np.array([-128, 127, -1], np.int8)
    wide, signed = u.astype(np.int32), s.astype(np.int32)
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        a, b, c, d = interpret("f", [u, s])
        assert np.array_equal(a, wide & 15)
        assert np.array_equal(b, ~wide)
        assert np.array_equal(c, signed >> 4)
        assert np.array_equal(d, (wide ^ signed) * 0.5)


def test_bits_after_a_product_of_integers() -> None:
    text = """kernel f[M, N, K](x: s8[M, K], w: s8[N, K]) -> s32[M, N] where K % 16 == 0, N % 4 == 0
    { return bitwise_and(right_shift(x @ w.T, 2), 255) % 7 }"""
    compilation = compile_text(Source("f.mcu", text))
    random = np.random.default_rng(4)
    x, w = random.integers(-128, 128, (5, 32)), random.integers(-128, 128, (8, 32))
    (got,) = compilation.interpret_lowered("f", [x, w])
    assert np.array_equal(got, ((x @ w.T) >> 2 & 255) % 7)


def test_a_number_with_a_fraction_makes_floats_of_integers() -> None:
    text = "kernel f[N](x: s32[N]) -> (a: f32[N], b: f32[N]) { return x * 0.5, softsign(x) }"
    compilation = compile_text(Source("f.mcu", text))
    x = np.array([3, -8, 100], np.int32)
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        half, soft = interpret("f", [x])
        assert half.tolist() == [1.5, -4, 50]
        assert np.allclose(soft, x / (1 + np.abs(x)), rtol=1e-6)


def test_no_contraction_computes_with_integers() -> None:
    text = """kernel f[M, N, K](x: s8[M, K], w: s8[N, K], b: s32[N], s: f32[M])
        -> (y: s32[M, N], z: f32[M, N]) where K % 16 == 0, N % 4 == 0
    { h = x @ w.T return h + b, (x @ w.T) * s[:, None] * (b * b) }"""
    compilation = compile_text(Source("f.mcu", text))
    random = np.random.default_rng(3)
    x, w = random.integers(-128, 128, (5, 32)), random.integers(-128, 128, (8, 32))
    b, s = random.integers(2**24, 2**30, 8), random.standard_normal(5)
    y, z = compilation.interpret_lowered("f", [x, w, b, s])
    assert np.array_equal(y, x @ w.T + b)
    square = (b * b).astype(np.int32).astype(np.float64)
    assert np.allclose(z, (x @ w.T) * s[:, None] * square, rtol=1e-5)


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "logsumexp"])
def test_differences_from_the_largest_integer_do_not_wrap_around(function: str) -> None:
    over, shape = (", axis=1", "M") if function == "logsumexp" else ("", "M, N")
    text = f"kernel f[M, N](x: s32[M, N]) -> f32[{shape}] {{ return {function}(x{over}) }}"
    compilation = compile_text(Source("f.mcu", text))
    x = np.array([[2**30, LEAST, 3], [50000, LEAST, 7], [2, 1, 0]], np.int32)
    below = x.astype(np.float32).astype(np.float64) - x.max(1, keepdims=True).astype(np.float32)
    logarithms = below - np.log(np.exp(below).sum(1, keepdims=True))
    want = {
        "softmax": np.exp(logarithms),
        "log_softmax": logarithms,
        "logsumexp": np.log(np.exp(below).sum(1)) + x.max(1),
    }[function]
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        assert np.allclose(interpret("f", [x])[0], want, rtol=1e-6)


def test_integers_beside_floats_are_rounded_to_f32_first() -> None:
    text = """kernel f[M, N](
        x: s32[M, N],
    ) -> (a: s32[M, N], b: f32[M, N], c: s32[M, N], d: bf16[M, N], e: f32[M]) {
        f = cast(x, f32)
        return where(f == x, 1, 0), x - f, where(x < 16777217.5, 1, 0), x, var(x, axis=1, correction=0)
    }"""
    compilation = compile_text(Source("f.mcu", text))
    x = np.array([[2**24 + 1, 2**24 + 2**16 + 1], [2**30, 2**30 + 1]], np.int32)
    for exact in (True, False):
        a, b, c, d, e = compilation.interpret("f", [x], exact=exact)
        assert a.all() and not b.any() and not e[1], exact
        assert np.array_equal(c, [[1, 0], [0, 0]]), exact
        assert np.array_equal(d, [[2**24, 2**24], [2**30, 2**30]]), exact
    for got, want in zip(compilation.interpret_lowered("f", [x]), (a, b, c, d, e), strict=True):
        assert np.array_equal(got, want)
