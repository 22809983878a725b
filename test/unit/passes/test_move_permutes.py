"""Pointwise work behind permutations of products computes what it did, in the kernel of the product."""

from __future__ import annotations

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims
from mucc.passes.move_permutes import Turn

SPACES = {3: (2, 5, 6), 4: (2, 3, 5, 6), 5: (2, 3, 1, 5, 6)}
"""Extents of results by rank; the last is that of channels."""


@pytest.mark.parametrize(
    ("order", "dims", "given", "original"),
    [
        ((0, 3, 1, 2), ("N", 48, "H", "W"), (48, 1, 1), (48,)),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), (1, 48, 1, 1), (48,)),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), ("H", 1), ("H", 1, 1)),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), ("H", "W"), ("H", "W", 1)),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), (1,), (1,)),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), (48, 1, "W"), None),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), (2, 1, 48, 1, 1), None),
        ((0, 3, 1, 2), ("N", 48, "H", "W"), (7, 1, 1), None),
        ((1, 0), ("N", "M"), ("M",), ("M", 1)),
    ],
)
def test_extents_in_the_order_of_the_product(
    order: tuple[int, ...], dims: Dims, given: Dims, original: Dims | None
):
    assert Turn(order, dims).original(given) == original


def kernels(text: str, inputs: list[np.ndarray]) -> int:
    """Compare a program's meaning with that of its kernels, and return their number."""
    made = compile_text(Source("t.mcu", text))
    for got, meant in zip(made.interpret_lowered("f", inputs), made.interpret("f", inputs), strict=True):
        np.testing.assert_allclose(got, meant, rtol=1e-5, atol=1e-5)
    return sum(isinstance(op, StageOp) for op in made.stages.walk())


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), st.sampled_from(sorted(SPACES)), st.integers(0, 99))
def test_chains_behind_permutations_are_one_kernel(data: st.DataObject, rank: int, seed: int) -> None:
    space = SPACES[rank]
    order = (0, *data.draw(st.permutations(range(1, rank))))
    back = tuple(order.index(axis) for axis in range(rank))
    channels = order.index(rank - 1)
    vector = ", ".join(":" if axis == channels else "None" for axis in range(channels, rank))
    steps = (
        f"{{0}} * g[{vector}]",
        f"g[{vector}] + {{0}}",
        "{0} + s",
        f"permute(r, {order}) - {{0}}",
        f"{{0}} + permute(r, {order})",
        "relu({0})",
        "where({0} > 0.25, {0}, s)",
        "gelu({0}) * {0}",
    )
    body = f"v0 = permute(x @ w.T, {order})\n"
    taken = data.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=4))
    for n, step in enumerate(taken):
        body += f"v{n + 1} = {step.format(f'v{n}')}\n"
    result = ", ".join(map(str, space))
    text = (
        f"kernel f(x: f32[{', '.join(map(str, space[:-1]))}, 7], w: f32[{space[-1]}, 7], g: f32[{space[-1]}],"
        f" s: f32, r: f32[{result}]) -> f32[{result}] {{\n{body}return permute(v{len(taken)}, {back}) }}"
    )
    rng = np.random.default_rng(seed)
    shapes = ((*space[:-1], 7), (space[-1], 7), (space[-1],), (), space)
    assert kernels(text, [rng.normal(size=shape) for shape in shapes]) == 1


@settings(max_examples=examples(20), deadline=None)
@given(st.permutations(range(4)), st.permutations(range(4)), st.integers(0, 99))
def test_permutations_that_do_not_cancel_keep_their_meaning(first: list[int], second: list[int], seed: int):
    space = SPACES[4]
    result = [[space[axis] for axis in first][axis] for axis in second]
    other = ", ".join(str(space[axis]) for axis in first)
    text = (
        f"kernel f(x: f32[2, 3, 5, 7], w: f32[6, 7], r: f32[{other}])"
        f" -> f32[{', '.join(map(str, result))}] {{"
        f" v = permute(x @ w.T, {tuple(first)}) * 2\n"
        f" return permute(v + r, {tuple(second)}) }}"
    )
    rng = np.random.default_rng(seed)
    shapes = ((2, 3, 5, 7), (6, 7), tuple(space[axis] for axis in first))
    kernels(text, [rng.normal(size=shape) for shape in shapes])
