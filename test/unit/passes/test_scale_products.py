"""Products whose operands have factors by row compute what they did, with the factors behind them."""

from __future__ import annotations

import numpy as np
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.contraction import MatmulOp

SIZES = {"B": 2, "M": 6, "N": 8, "K": 16}
PARAMETERS = {
    "x": "f32[M, K]",
    "w": "f32[N, K]",
    "v": "f32[K, N]",
    "u": "f32[K, K]",
    "z": "f32[B, M, K]",
    "t": "f32[K, M]",
    "r": "f32[M]",
    "c": "f32[N]",
    "g": "f32[K]",
    "s": "f32",
}
ROWS = ("r[:, None]", "s", "0.5", "rsqrt(sum(x * x, axis=1, keepdims=on) + 1)", "(r * s)[:, None]")
COLUMNS = ("c[:, None]", "s", "2", "sum(abs(w), axis=1, keepdims=on)")


@st.composite
def chains(draw: st.DrawFn, base: str, factors: tuple[str, ...]) -> str:
    """An expression: a matrix with factors and divisors, some of which change along the summed axis."""
    text = base
    for factor in draw(st.lists(st.sampled_from((*factors, "g")), max_size=3)):
        text = f"({text} {draw(st.sampled_from('*/'))} {factor})"
    return text


def computed(out: str, body: str, seed: int) -> list[tuple[str, ...]]:
    """Compare a program's meaning with that of its kernels; return the operands of its products by name."""
    parameters = ", ".join(f"{name}: {type}" for name, type in PARAMETERS.items())
    text = f"kernel f[{', '.join(SIZES)}]({parameters}) -> {out} {{ return {body} }}"
    compiled = compile_text(Source("t.mcu", text))
    rng = np.random.default_rng(seed)
    inputs: list[np.ndarray] = []
    for type in PARAMETERS.values():
        extents = [SIZES[d] for d in type.partition("[")[2].rstrip("]").split(", ") if d]
        signs = rng.choice([-1.0, 1.0], extents)
        inputs.append(signs * rng.uniform(0.5, 2, extents))
    (meant,), (got,) = compiled.interpret("f", inputs), compiled.interpret_lowered("f", inputs)
    np.testing.assert_allclose(got, meant, rtol=1e-4, atol=1e-4)
    products = [op for op in compiled.stages.walk() if isinstance(op, MatmulOp)]
    return [tuple(v.name_hint or "" for v in (op.lhs, op.rhs)) for op in products]


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), st.integers(0, 99))
def test_products_of_scaled_matrices(data: st.DataObject, seed: int) -> None:
    base = data.draw(st.sampled_from(("x", "z", "x @ u", "(x @ u + x)")))
    lhs = data.draw(chains(base, ROWS))
    rhs = f"{data.draw(chains('w', COLUMNS))}.T"
    computed("f32[B, M, N]" if base == "z" else "f32[M, N]", f"{lhs} @ {rhs}", seed)


@settings(max_examples=10, deadline=None)
@given(chains("t", ("r", "s", "r[None, :]")), st.integers(0, 99))
def test_products_of_turned_and_scaled_matrices(lhs: str, seed: int) -> None:
    computed("f32[M, N]", f"{lhs.replace('g', 'g[:, None]')}.T @ v", seed)


def test_factors_of_rows_leave_parameters_as_they_are() -> None:
    for factor in ROWS:
        ((lhs, _),) = computed("f32[M, N]", f"(x * {factor} / s) @ v", 0)
        assert lhs == "x"
    ((lhs, _),) = computed("f32[M, N]", "(x * g * r[:, None]) @ v", 0)
    assert lhs != "x"


def test_rows_of_zeros_and_infinities_give_what_the_scaled_rows_give() -> None:
    text = """kernel f(x: f32[4, 16], v: f32[16, 8]) -> f32[4, 8] {
        return (x / sqrt(sum(x * x, axis=1, keepdims=on))) @ v
    }"""
    compiled = compile_text(Source("t.mcu", text))
    x = np.ones((4, 16))
    x[1], x[2, 3], x[3, 5] = 0, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        (meant,), (got,) = (
            run("f", [x, np.ones((16, 8))]) for run in (compiled.interpret, compiled.interpret_lowered)
        )
    np.testing.assert_allclose(got, meant, rtol=1e-5)
