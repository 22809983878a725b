"""Work between two permutations, of which the second undoes the first, is done without either."""

from __future__ import annotations

import numpy as np
import pytest
from budget import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mucc.compiler.compilation import Compilation
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import PermuteOp, TransposeOp
from mucc.dialects.mu.types import Shaped

SPACES = {3: (3, 5, 6), 4: (2, 3, 5, 6), 5: (2, 3, 1, 5, 6)}
"""Extents of tensors by rank."""


def checked(text: str, inputs: list[np.ndarray]) -> Compilation:
    """Compile a program whose kernels compute what it means."""
    made = compile_text(Source("t.mcu", text))
    for got, meant in zip(made.interpret_lowered("f", inputs), made.interpret("f", inputs), strict=True):
        np.testing.assert_allclose(got, meant, rtol=2e-5, atol=2e-5)
    return made


def moves(made: Compilation) -> int:
    return sum(isinstance(op, PermuteOp | TransposeOp) for op in made.stages.walk())


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), st.sampled_from(sorted(SPACES)), st.integers(0, 99))
def test_permutations_around_work_vanish(data: st.DataObject, rank: int, seed: int) -> None:
    space = SPACES[rank]
    order = tuple(data.draw(st.permutations(range(rank))))
    back = tuple(order.index(axis) for axis in range(rank))
    turned = [space[axis] for axis in order]
    axis = data.draw(st.integers(0, rank - 1))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    vector = ", ".join(":" if a == axis else "None" for a in range(axis, rank))
    steps = (
        f"softmax({{0}}, axis={axis})",
        f"log_softmax({{0}} * 2, axis={axis})",
        f"layer_norm({{0}}, axis={axes})",
        f"{{0}} * rsqrt(mean({{0}} * {{0}}, axis={axes}, keepdims=on) + s)",
        f"{{0}} - max({{0}}, axis={axes}, keepdims=on)",
        f"{{0}} / (1 + var({{0}}, axis={axes}, keepdims=on, correction=0))",
        f"{{0}} - logsumexp({{0}}, axis={axes}, keepdims=on)",
        f"{{0}} * g[{vector}]",
        f"permute(r, {order}) - {{0}}",
        "where({0} > 0.25, {0}, s)",
        "gelu({0}) * {0}",
    )
    body = f"v0 = permute(x, {order})\n"
    taken = data.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=3))
    for n, step in enumerate(taken):
        body += f"v{n + 1} = {step.format(f'v{n}')}\n"
    shape = ", ".join(map(str, space))
    text = (
        f"kernel f(x: f32[{shape}], r: f32[{shape}], g: f32[{turned[axis]}], s: f32) -> f32[{shape}] {{\n"
        f"{body}return permute(v{len(taken)}, {back}) }}"
    )
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=space), rng.normal(size=space), rng.normal(size=turned[axis]), np.array(0.5)]
    assert moves(checked(text, inputs)) == 0


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), st.sampled_from(sorted(SPACES)), st.integers(0, 99))
def test_reductions_of_what_is_permuted_read_it_in_its_order(
    data: st.DataObject, rank: int, seed: int
) -> None:
    space = SPACES[rank]
    order = tuple(data.draw(st.permutations(range(rank))))
    turned = [space[axis] for axis in order]
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=rank - 1))))
    kind, dtype = data.draw(st.sampled_from(("sum", "max", "mean", "var", "logsumexp", "argmax"))), "f32"
    if kind == "argmax":
        axes, dtype = axes[:1], "s32"
    assume(any(turned[axis] > 1 for axis in axes))  # else it is a view
    steps = ("relu({0})", "{0} * s + permute(r, {1})", "softmax({0}, axis=0)", "{0}")
    work = data.draw(st.sampled_from(steps)).format("y", order)
    over = axes[0] if kind == "argmax" else axes
    result = ", ".join(str(extent) for axis, extent in enumerate(turned) if axis not in axes)
    shape = ", ".join(map(str, space))
    text = (
        f"kernel f(x: f32[{shape}], r: f32[{shape}], s: f32) -> {dtype}[{result}] {{\n"
        f"y = permute(x, {order})\nreturn {kind}({work}, axis={over}) }}"
    )
    rng = np.random.default_rng(seed)
    made = checked(text, [rng.normal(size=space), rng.normal(size=space), np.array(0.5)])
    moved = [op for op in made.stages.walk() if isinstance(op, PermuteOp | TransposeOp)]
    assert all(len(Shaped.of(op.operands[0].type).dims) < rank for op in moved)


@pytest.mark.parametrize(
    "body",
    [
        # The values that are reduced are read in their own order, too: one kernel does both.
        "y = x.T\nreturn sum(y - max(y, axis=1, keepdims=on), axis=1)",
        # They lie in memory in the order in which they are reduced.
        "return sum(w.T, axis=1)",
    ],
)
def test_reductions_that_stay(body: str) -> None:
    text = f"kernel f(x: f32[5, 6], w: f32[5, 6] col_major) -> f32[6] {{\n{body}\n}}"
    rng = np.random.default_rng(1)
    made = checked(text, [rng.normal(size=(5, 6)), rng.normal(size=(5, 6))])
    assert sum(isinstance(op, StageOp) for op in made.stages.walk()) == 1


@pytest.mark.parametrize(
    ("results", "body", "stages"),
    [
        # Something else reads the work in its own order.
        ("y: f32[6, 5], z: f32[5, 6]", "y = softmax(x.T, axis=1)\nreturn y, y.T", 2),
        # One operand is not permuted.
        ("z: f32[5, 6]", "return softmax(x.T + w, axis=1).T", 2),
        # The order is another one behind.
        ("z: f32[6, 5]", "return softmax(x.T, axis=1)", 1),
    ],
)
def test_permutations_that_stay(results: str, body: str, stages: int) -> None:
    text = f"kernel f(x: f32[5, 6], w: f32[6, 5]) -> ({results}) {{\n{body}\n}}"
    rng = np.random.default_rng(1)
    made = checked(text, [rng.normal(size=(5, 6)), rng.normal(size=(6, 5))])
    assert moves(made) > 0
    assert sum(isinstance(op, StageOp) for op in made.stages.walk()) == stages


def test_long_chains_between_permutations_take_no_recursion() -> None:
    lines = "\n".join(f"v{n + 1} = v{n} * 0.5 + v{n}" for n in range(700))
    text = f"kernel f(x: f32[5, 6]) -> f32[5, 6] {{\nv0 = x.T\n{lines}\nreturn v700.T\n}}"
    assert moves(compile_text(Source("t.mcu", text))) == 0
