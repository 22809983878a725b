"""Operations that move elements, over run-time extents: their types, what they promise, their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.frontend import lower, parse
from mucc.frontend.source import module_text
from mucc.library.extents import ExtentError
from mucc.library.signature import Manifest
from mucc.passes.promise_extents import conditions

SIZES = {"M": 3, "N": 4, "K": 12}

Want = Callable[[Any, Any], Any]

CASES: dict[str, tuple[str, list[str], Want]] = {
    "concat(x, y, axis=0)": ("M+N, K", [], lambda x, y: np.concatenate([x, y])),
    "concat(x, x, y, x, axis=0)": ("3*M+N, K", [], lambda x, y: np.concatenate([x, x, y, x])),
    "x[:, 2:]": ("M, K-2", ["K >= 3"], lambda x, y: x[:, 2:]),
    "x[:, :K/2]": ("M, K/2", ["K % 2 == 0"], lambda x, y: x[:, :6]),
    "x[:, K/2:]": ("M, K/2", ["K % 2 == 0"], lambda x, y: x[:, 6:]),
    "x[:, M:2*N]": ("M, 2*N-M", ["2 * N >= M + 1", "K >= 2 * N"], lambda x, y: x[:, 3:8]),
    "x[:, ::2]": ("M, K/2", ["K % 2 == 0"], lambda x, y: x[:, ::2]),
    "x[:, 1::2]": ("M, K/2", ["K % 2 == 0", "K >= 2"], lambda x, y: x[:, 1::2]),
    "x[:, 2:K-1:3]": ("M, (K-3)/3", ["K >= 4", "K % 3 == 0"], lambda x, y: x[:, 2:11:3]),
    "x[:, :5]": ("M, 5", ["K >= 5"], lambda x, y: x[:, :5]),
    "pad(x, 1, (2, 3))": ("M+2, K+4", [], lambda x, y: np.pad(x, ((0, 2), (1, 3)))),
    "pad(x, 2, 1, mode=reflect)": ("M, K+3", ["K >= 3"], lambda x, y: np.pad(x, ((0, 0), (2, 1)), "reflect")),
    "flip(x, axis=1)": ("M, K", [], lambda x, y: x[:, ::-1]),
    "roll(x, 2, axis=0)": ("M, K", ["M >= 3"], lambda x, y: np.roll(x, 2, 0)),
    "roll(x, -5, axis=1)": ("M, K", ["K >= 6"], lambda x, y: np.roll(x, -5, 1)),
    "reshape(x, (M*K,))": ("M*K", [], lambda x, y: x.reshape(-1)),
    "reshape(x, (M, 4, K/4))": ("M, 4, K/4", ["K % 4 == 0"], lambda x, y: x.reshape(3, 4, 3)),
    "repeat(x, 3, axis=1)": ("M, 3*K", [], lambda x, y: np.repeat(x, 3, 1)),
    "repeat(x, N, axis=0)": ("N*M, K", [], lambda x, y: np.repeat(x, 4, 0)),
    "broadcast(1.0, (2*M, K)) + cast(iota((2*M, K), 0), f32)": (
        "2*M, K",
        [],
        lambda x, y: 1 + np.arange(6.0)[:, None] + np.zeros((6, 12)),
    ),
    "group_norm(x, 4) * 0 + x": ("M, K", ["K % 4 == 0"], lambda x, y: x),
}


def kernel(expression: str, shape: str) -> KernelOp:
    text = f"kernel f[M, N, K](x: f32[M, K], y: f32[N, K]) -> f32[{shape}] {{ return {expression} }}"
    program, sink = parse(Source("f.mcu", text))
    module = lower(program, sink)
    sink.raise_if_errors()
    module.verify()
    (op,) = module.body.block.ops
    assert isinstance(op, KernelOp)
    return op


@pytest.mark.parametrize("expression", CASES)
def test_types_promises_and_meaning(expression: str) -> None:
    shape, promised, want = CASES[expression]
    op = kernel(expression, shape)
    found = set(conditions(op))
    assert set(promised) <= found
    assert not {c for c in found if "%" in c} - set(promised)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 12)), rng.standard_normal((4, 12))
    (got,) = interpret_kernel(op, [x, y])
    np.testing.assert_allclose(got, want(x, y), atol=1e-12)


@pytest.mark.parametrize("expression", CASES)
def test_the_text_comes_back(expression: str) -> None:
    op = kernel(expression, CASES[expression][0])
    text = module_text(op.parent_op())  # type: ignore[arg-type]
    program, sink = parse(Source("f.mcu", text))
    again = lower(program, sink)
    sink.raise_if_errors()
    assert str(again) == str(op.parent_op())


def test_slices_that_do_not_fit_have_no_meaning() -> None:
    op = kernel("x[:, :N]", "M, N")
    with pytest.raises(ValueError, match="slice 0:5 does not fit an extent of 4"):
        interpret_kernel(op, [np.zeros((3, 4)), np.zeros((5, 4))])
    with pytest.raises(ExtentError, match="K/2 is no whole number for K = 5"):
        interpret_kernel(kernel("x[:, :K/2]", "M, K/2"), [np.zeros((3, 5)), np.zeros((5, 5))])


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("x[:, K:K]", "MU1093"),
        ("x[:, :K+1]", "MU1093"),
        ("x[:, K:2]", "MU1012"),
        ("x[:, :y]", "MU1097"),
        ("reshape(x, (M, 2*K))", "MU1090"),
        ("repeat(x, 0, axis=1)", "MU1049"),
        ("roll(broadcast(1, (8-M, K)), 9, axis=0)", "MU1093"),
        ("repeat(x, 2, axis=2)", "MU1028"),
        ("group_norm(x, 0)", "MU1100"),
        ("broadcast(1, (M, K-K))", "MU1049"),
        ("broadcast(1, (M, K/N))", "MU1054"),
    ],
)
def test_refusals(expression: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        kernel(expression, "M, K")
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_repeats_and_merged_dims_have_kernels() -> None:
    text = """
    kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> (a: bf16[M, 2*N], b: f32[M*N]) where K % 8 == 0 {
        y = x @ w.T
        return repeat(y, 2, axis=1), reshape(y, (M*N,)) / (M * N)
    }
    """
    compilation = compile_text(Source("k.mcu", text), Options("sm_90a"))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-2, 3, (3, 8)), rng.integers(-2, 3, (5, 8))]
    for want, got in zip(
        compilation.interpret("f", inputs), compilation.interpret_lowered("f", inputs), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert "M * N" in compilation.emit("cu")


def test_elements_of_run_time_extents_move_around_in_kernels() -> None:
    text = """
    kernel f[M, N](x: f32[M, N]) -> f32[M, N] {
        return roll(x, 1, axis=0) - roll(x, -2, axis=1) * roll(x, 0, axis=1)
    }
    """
    compilation = compile_text(Source("k.mcu", text), Options("sm_90a"))
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    (got,) = compilation.interpret_lowered("f", [x])
    np.testing.assert_allclose(got, np.roll(x, 1, 0) - np.roll(x, -2, 1) * x, rtol=1e-6)
    (kernel_info,) = Manifest.parse(compilation.manifest).kernels
    assert [text for text, _ in kernel_info.promises] == ["M >= 2", "N >= 3"]
