"""Bounds that hold whatever the inputs are, and softmaxes that need no maximum because of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.elementwise import AddOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.value_bounds import bounds_of

PARAMETERS = "x: f32[5, 7], w: f32[7]"
NUMBERS = st.sampled_from(("-3", "-0.5", "0", "1.25", "8"))


FUNCTIONS = ("sigmoid", "tanh", "softsign", "hardsigmoid", "relu", "hardtanh", "abs")


@st.composite
def bounded(draw: st.DrawFn, depth: int = 3) -> str:
    """An expression that is bounded on both sides, on one, or not at all."""
    kinds = ("leaf", "function", "limit", "clamp", "two") if depth else ("leaf",)
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        return draw(st.sampled_from(("x", "w", "x * 100")))
    inner, limit = draw(bounded(depth - 1)), draw(st.sampled_from(("min", "max")))
    match kind:
        case "function":
            return f"{draw(st.sampled_from(FUNCTIONS))}({inner})"
        case "limit":
            return f"{limit}({inner}, {draw(NUMBERS)})"
        case "clamp":
            return f"clamp({inner}, {draw(NUMBERS)}, {draw(NUMBERS)})"
        case _:
            return f"{limit}({inner}, {draw(bounded(depth - 1))})"


def compiled(results: str, body: str) -> Compilation:
    return compile_text(Source("t.mcu", f"kernel f({PARAMETERS}) -> {results} {{ return {body} }}"))


def inputs(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 4, (5, 7)), rng.normal(0, 4, 7)]


@settings(max_examples=examples(60), deadline=None)
@given(bounded(), st.integers(0, 99))
def test_all_elements_are_between_the_bounds(body: str, seed: int) -> None:
    found = compiled("f32[5, 7]", f"{body} + 0 * x")
    (returned,) = (op for op in found.mu.walk() if isinstance(op, ReturnOp))
    total = returned.operands[0].owner
    assert isinstance(total, AddOp)
    low, high = bounds_of(total.lhs)
    (value,) = found.interpret("f", inputs(seed))
    assert (value >= low - 1e-6).all() and (value <= high + 1e-6).all()


def reductions(found: Compilation) -> list[Reduction]:
    return [op.kind.data for op in found.stages.walk() if isinstance(op, ReduceOp)]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from(("softmax", "log_softmax")), st.integers(-99, 99), st.integers(0, 64), st.integers(0, 99)
)
def test_softmaxes_of_bounded_values(function: str, low: int, width: int, seed: int) -> None:
    found = compiled("f32[5, 7]", f"{function}(clamp(x * 9, {low}, {low + width}))")
    assert reductions(found) == [Reduction.SUM]
    (meant,), (got,) = (run("f", inputs(seed)) for run in (found.interpret, found.interpret_lowered))
    np.testing.assert_allclose(got, meant, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "has_maximum"),
    [
        ("logsumexp(clamp(x, -10, 10), axis=1)", False),
        ("logsumexp(sigmoid(x), axis=1)", False),
        ("sum(softmax(tanh(x)) * x, axis=1)", False),
        ("logsumexp(hardtanh(x, lo=-32, hi=32), axis=1)", False),
        ("logsumexp(clamp(x, -100, 100), axis=1)", True),
        ("logsumexp(relu(x), axis=1)", True),
        ("logsumexp(min(x, 5), axis=1)", True),
        ("logsumexp(clamp(x, 1e5, 1e5 + 1), axis=1)", True),
        ("logsumexp(x, axis=1)", True),
    ],
)
def test_narrow_bounds_take_the_place_of_the_maximum(body: str, has_maximum: bool) -> None:
    found = compiled("f32[5]", body)
    assert (Reduction.MAX in reductions(found)) is has_maximum
    values = [np.array([[-1e30, 0, 3, 12, -12, 5, 6]] * 5), np.ones(7)]
    values[0][1] = math.nan
    values[0][2] = -math.inf
    values[0][3, 2] = math.inf
    with np.errstate(all="ignore"):
        (meant,), (got,) = (run("f", values) for run in (found.interpret, found.interpret_lowered))
    np.testing.assert_allclose(got, meant, rtol=1e-5, atol=1e-6)
