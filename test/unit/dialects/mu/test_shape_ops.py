"""Operations that move elements, and reductions: against torch, on both array libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import tensor
from hypothesis import given
from hypothesis import strategies as st
from tensorlib import check, program, random, run, same_when_decomposed

from mucc.compiler.driver import Options, check_language, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.dialects.mu import shape_rules
from mucc.dialects.mu.rules import TypeRuleError

torch = pytest.importorskip("torch")
F = torch.nn.functional

X = random(2, 3, 4, 6)


@pytest.mark.parametrize(
    ("expression", "reference"),
    [
        ("reshape(x, (6, 24))", lambda x: x.reshape(6, 24)),
        ("reshape(x.T, (2, 72))", lambda x: x.transpose(-1, -2).reshape(2, 72)),
        ("permute(x, (3, 0, -2, 1))", lambda x: x.permute(3, 0, 2, 1)),
        ("x[..., 1:6:2]", lambda x: x[..., 1:6:2]),
        ("x[:, :, 0:3]", lambda x: x[:, :, 0:3]),
        ("concat(x, x * 2, x[:, :1], axis=1)", lambda x: torch.cat([x, x * 2, x[:, :1]], 1)),
        ("concat(x, axis=1)", lambda x: x),
        ("pad(x, (1, 0), (2, 3), value=-1.5)", lambda x: F.pad(x, (0, 3, 1, 2), value=-1.5)),
        ("pad(x, 2, 1, mode=reflect)", lambda x: F.pad(x, (2, 1, 0, 0), mode="reflect")),
        ("pad(x, (2, 1), (0, 3), mode=replicate)", lambda x: F.pad(x, (1, 3, 2, 0), mode="replicate")),
        ("pad(x, (4, 1), (0, 6), mode=circular)", lambda x: F.pad(x, (1, 6, 4, 0), mode="circular")),
        ("flip(x, axis=(0, -1))", lambda x: x.flip(0, 3)),
        ("flip(x)", lambda x: x.flip(0, 1, 2, 3)),
        ("roll(x, -8, axis=3)", lambda x: x.roll(-8, 3)),
        ("roll(x, 1, 1)", lambda x: x.roll(1, 1)),
        ("tril(x)", lambda x: x.tril()),
        ("tril(x, diagonal=-2)", lambda x: x.tril(-2)),
        ("triu(x, 1)", lambda x: x.triu(1)),
        ("broadcast(x, (5, 2, 3, 4, 6))", lambda x: x.expand(5, 2, 3, 4, 6)),
        ("mean(x, axis=(0, 2))", lambda x: x.mean((0, 2))),
        ("mean(x, keepdims=on)", lambda x: x.mean((0, 1, 2, 3), keepdim=True)),
        ("sum(x, axis=(1, -1), keepdims=on)", lambda x: x.sum((1, 3), keepdim=True)),
        ("prod(x, axis=2)", lambda x: x.prod(2)),
        ("prod(x, axis=(0, 3))", lambda x: x.prod(3).prod(0)),
        ("var(x, axis=(2, 3))", lambda x: x.var((2, 3))),
        ("var(x, correction=0, keepdims=on)", lambda x: x.var(correction=0, keepdim=True)),
        ("var(x, axis=2, correction=2)", lambda x: x.var(2, correction=2)),
        ("argmax(x, axis=-1)", lambda x: x.argmax(-1)),
        ("argmin(x, axis=1, keepdims=on)", lambda x: x.argmin(1, keepdim=True)),
        ("where(any(x > 1, axis=3), 1, 0)", lambda x: (x > 1).any(3)),
        ("where(all(x > -1, axis=(1, 2), keepdims=on), 1, 0)", lambda x: (x > -1).all(1, True).all(2, True)),
    ],
)
def test_against_torch(expression: str, reference: Any) -> None:
    check(expression, reference, X)


def test_constants() -> None:
    a, b = run(
        """kernel f[M, N=3](x: f32[M]) -> (a: s32[M, N], b: f16[N, M]) {
            return iota((M, N), axis=-1) + 10 * iota((M, 1), axis=0), full((N, M), 0.5, dtype=f16) + x * 0
        }""",
        random(4),
    )
    assert a.tolist() == [[0, 1, 2], [10, 11, 12], [20, 21, 22], [30, 31, 32]]
    assert b.shape == (3, 4)
    assert np.all(b == 0.5)


def test_dims_pass_through() -> None:
    (y,) = run(
        """kernel f[B, M, K=4](x: f32[B, M, 2, K]) -> f32[M, B, 8] {
            return reshape(permute(x, (1, 0, 2, 3)), (M, B, 8))
        }""",
        x := random(3, 5, 2, 4),
    )
    np.testing.assert_array_equal(y, x.transpose(1, 0, 2, 3).reshape(5, 3, 8))


def test_nan_is_extreme() -> None:
    x = np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 1.0]])
    mcu = "kernel f(x: f32[2, 3]) -> (a: s32[2], b: s32[2]) { return argmax(x, axis=1), argmin(x, axis=1) }"
    a, b = run(mcu, x)
    assert a.tolist() == [1, 0]
    assert b.tolist() == [1, 2]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from(("constant", "reflect", "replicate", "circular")),
    st.data(),
)
def test_padding_of_any_shape(shape: list[int], mode: str, data: st.DataObject) -> None:
    most = {"reflect": lambda n: n - 1, "circular": lambda n: n}.get(mode, lambda n: 3)
    low, high = ([data.draw(st.integers(0, most(n))) for n in shape] for _ in range(2))
    x = random(*shape)
    numpy_mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    expected = np.pad(x, list(zip(low, high, strict=True)), mode=numpy_mode)  # type: ignore[call-overload]
    texts = (
        f"({', '.join(map(str, v))},)" if len(v) == 1 else f"({', '.join(map(str, v))})" for v in (low, high)
    )
    (y,) = run(program(f"pad(x, {', '.join(texts)}, mode={mode})", [shape], expected.shape), x)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        (
            lambda: shape_rules.reshape(tensor("M", 4), ("M",)),
            "MU1090",
            "f32[M, 4] cannot be reshaped to [M]",
        ),
        (lambda: shape_rules.reshape(tensor("M", 4), ("N", 4)), "MU1090", "f32[M, 4] cannot be reshaped"),
        (
            lambda: shape_rules.slice_(tensor("M", 4), 0, "M+1", "M+2", 1),
            "MU1093",
            "slice M+1:M+2:1 does not fit axis 0 of f32[M, 4]",
        ),
        (
            lambda: shape_rules.permute(tensor("M", 4), (0,)),
            "MU1095",
            "permute needs 2 axes for f32[M, 4], got",
        ),
        (
            lambda: shape_rules.concat([tensor(4), tensor(4, 4)], 0),
            "MU1094",
            "f32[4] and f32[4, 4] cannot be",
        ),
        (
            lambda: shape_rules.pad(tensor(4), (-1,), (0,), "constant"),
            "MU1096",
            "-1 and 0 elements cannot pad",
        ),
        (lambda: shape_rules.pad(tensor(4), (0, 0), (0,), "constant"), "MU1095", "pad needs 1 numbers"),
    ],
)
def test_refusals(rule: Any, code: str, message: str) -> None:
    with pytest.raises(TypeRuleError) as error:
        rule()
    assert error.value.code == code
    assert error.value.message.startswith(message)


def test_reshape_knows_parts_of_dims() -> None:
    assert shape_rules.reshape(tensor("N", "K"), ("N", "K/128", 128)) == tensor("N", "K/128", 128)


# Decompositions


@pytest.mark.parametrize(
    "body",
    [
        "mean(x, axis=1)",
        "mean(x, axis=(0, 1), keepdims=on) * x",
        "var(x, axis=-1) + var(x, axis=1, correction=0)",
        "where(any(x > 0, axis=0) and all(x < 1.5, axis=0), 1, 0)",
        "reshape(x, (2, 2, 6)) * 2",
        "reshape(reshape(x, (12, 2)).T, (24,))",
        "reshape(permute(x, (1, 0)), (3, 8))",
        "permute(reshape(x, (4, 1, 6)), (1, 0, 2)) + 1",
        "full((4, 6), 2.5) + full((6,), 1, dtype=bf16) * x",
        "reshape(relu(x) @ x.T, (16,))",
        "broadcast(x, (2, 4, 6))",
    ],
)
def test_decomposition_and_stages_keep_the_meaning(body: str) -> None:
    x = random(4, 6).astype(np.float32)
    mcu = f"kernel f(x: f32[4, 6]) -> f32[] {{ y = {body} return mean(y) + amax(y) }}"
    same_when_decomposed(mcu, x)
    compilation = compile_text(Source("f.mcu", mcu))
    (expected,) = compilation.interpret("f", [x])
    (lowered,) = compilation.interpret_lowered("f", [x])
    np.testing.assert_allclose(lowered, expected, rtol=2e-2)


def test_what_has_no_kernel_is_an_error_when_compiled_or_checked() -> None:
    source = Source(
        "f.mcu",
        "kernel f(x: s32[4, 6, 6], y: f32[4, 1]) -> (a: s32[4, 6, 3], b: f32[4]) {"
        " return max_pool(x, 2), var(y, 1) }",
    )
    for deep in (True, False):
        with pytest.raises(DiagnosticError) as error:
            compile_text(source, Options(keep_levels=deep))
        assert [(d.code, d.severity) for d in error.value.diagnostics] == [("MU2010", "error")] * 2
        assert [d.message for d in error.value.diagnostics] == [
            "mucc has no kernel for `max_pool` yet",
            "mucc has no kernel for `var` yet",
        ]
    assert check_language(source) == ()
