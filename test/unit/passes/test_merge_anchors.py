"""Work that is written twice is computed once, and programs compute what they did."""

from __future__ import annotations

import numpy as np
import pytest
from budget import examples
from builders import kernel, kernel_names, lowered
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.passes.merge_anchors import MergeAnchors
from mucc.sol.program import analyse_source
from mucc.target.devices import cards

PASSES = ("mu-canonicalize", "decompose", "mu-canonicalize")
ANCHORS = (
    "({} @ u)",
    "softmax({}, axis=1)",
    "cumsum({}, axis=1)",
    "cumsum({}, axis=0)",
    "sort({})",
    "({0} - max({0}, axis=0))",
    "({0} - mean({0}, axis=1, keepdims=on))",
)
POINTWISE = ("relu({})", "({} + y)", "({} * c)", "cast({}, f32)", "({} @ u)", "cumsum({}, axis=1)")
M, N = 5, 8


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program with an expression of one to three anchors that two or three results are computed of."""
    shared = draw(st.sampled_from(("x", "(x + y)", "exp(x)", "y", "(x * c)")))
    for form in draw(st.lists(st.sampled_from(ANCHORS), min_size=1, max_size=3)):
        shared = form.format(shared)
    results: list[str] = []
    for _ in range(draw(st.integers(2, 3))):
        text = f"(x + {shared})"
        for form in draw(st.lists(st.sampled_from(POINTWISE), max_size=2)):
            text = form.format(text)
        results.append(text)
    types = ", ".join(f"r{i}: f32[M, {N}]" for i in range(len(results)))
    parameters = f"x: f32[M, {N}], y: f32[M, {N}], c: f32[{N}], u: f32[{N}, {N}]"
    return f"kernel f[M]({parameters}) -> ({types}) {{ return {', '.join(results)} }}"


def anchors(entry: KernelOp) -> int:
    return sum(isinstance(op, AnchorOp) for op in entry.body.block.ops)


def arguments(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-8, 9, extents) / 4 for extents in ((M, N), (M, N), (N,), (N, N))]


@settings(max_examples=examples(40))
@given(programs(), st.integers(0, 2**31))
def test_programs_mean_what_they_did(text: str, seed: int) -> None:
    before, module = kernel(text, *PASSES), lowered(text, *PASSES)
    MergeAnchors(always=True).apply(None, module)
    module.verify()
    after = module.body.block.first_op
    assert isinstance(after, KernelOp)
    assert anchors(after) < anchors(before)
    inputs = arguments(seed)
    for meant, found in zip(interpret_kernel(before, inputs), interpret_kernel(after, inputs), strict=True):
        np.testing.assert_array_equal(found, meant)


@settings(max_examples=examples(15))
@given(programs(), st.integers(0, 2**31))
def test_kernels_compute_what_programs_mean(text: str, seed: int) -> None:
    compiled = compile_text(Source("t.mcu", text))
    inputs = arguments(seed)
    meant_results, results = compiled.interpret("f", inputs), compiled.interpret_lowered("f", inputs)
    for meant, found in zip(meant_results, results, strict=True):
        np.testing.assert_allclose(found, meant, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("results", "body", "expected"),
    [
        ("a: bf16[M, 512], b: bf16[M, 512]", "relu(x @ w), sigmoid(x @ w)", ["gemm"]),
        ("a: bf16[M, 1024], b: bf16[M, 1024]", "relu(cumsum(x, axis=1)), cumsum(x, axis=1) * 2", ["scan"]),
        ("a: bf16[M, 512], b: bf16[M, 512]", "softmax(x @ w, axis=1), exp(x @ w)", ["gemm", "normalize"]),
    ],
)
def test_one_kernel_computes_it(results: str, body: str, expected: list[str]) -> None:
    text = f"kernel f[M](x: bf16[M, 1024], w: bf16[1024, 512]) -> ({results}) {{ return {body} }}"
    assert kernel_names(text) == expected


def test_bounds_count_equal_work_once() -> None:
    parameters = "x: bf16[4096, 4096], w: bf16[4096, 4096], y: bf16[4096, 4096]"
    result = "bf16[4096, 4096]"
    once = f"kernel f({parameters}) -> {result} {{ return x @ w }}"
    twice = f"kernel f({parameters}) -> {result} {{ return relu(x @ w) * y + sigmoid(x @ w) }}"
    (one,), (two,) = (analyse_source(Source("t.mcu", text), cards()["h200"], {}) for text in (once, twice))
    assert one.bound.seconds == two.bound.seconds


def test_long_programs_take_linear_time() -> None:
    """Each step is read twice, so that paths through the program are exponentially many."""
    count = 200
    steps = "".join(
        f"    v{i + 1} = cumsum(v{i}, axis=1) + relu(cumsum(v{i}, axis=1))\n" for i in range(count)
    )
    entry = kernel(
        f"kernel f[M](v0: f32[M, 8]) -> f32[M, 8] {{\n{steps}    return v{count}\n}}", "merge-anchors"
    )
    assert anchors(entry) == count
