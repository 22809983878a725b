"""How axes are divided where pointwise work moves to the extents before a regroup."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.types import Dims
from mucc.passes.move_regroups import Split


@pytest.mark.parametrize(
    ("whole", "fine", "parts"),
    [
        (("B", 12, "P"), ("B", 3, 4, "P"), (("B",), (3, 4), ("P",))),
        (("8*C", 5), (8, "C", 5), ((8, "C"), (5,))),
        ((6,), (1, 6), ((1, 6),)),
        ((4, 1), (4,), ((4,), ())),
        ((4, 1), (2, 2, 1, 1), ((2, 2), (1, 1))),
        ((3, 4), (12,), None),
        ((6, 4), (3, 4, 2), None),
        (("B", "C"), ("C", "B"), None),
    ],
)
def test_axes_are_divided(whole: Dims, fine: Dims, parts: tuple[Dims, ...] | None):
    found = Split.of(whole, fine)
    assert (None if found is None else found.parts) == parts


@given(st.lists(st.lists(st.integers(2, 5), min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_operands_that_broadcast_are_divided_alike(parts: list[list[int]], data: st.DataObject):
    whole = tuple(math.prod(part) for part in parts)
    split = Split.of(whole, tuple(n for part in parts for n in part))
    assert split is not None and split.parts == tuple(map(tuple, parts))
    kept = data.draw(st.integers(0, len(whole)))
    dims = tuple(data.draw(st.sampled_from([1, extent])) for extent in whole[kept:])
    divided = split.dims(dims)
    assert divided is not None and math.prod(divided) == math.prod(dims)
    assert all(d in (1, n) for d, n in zip(divided, [n for part in parts[kept:] for n in part], strict=True))


def test_other_extents_are_not_divided():
    split = Split.of((12, 5), (3, 4, 5))
    assert split is not None and split.dims((6, 5)) is None and split.dims((2, 12, 5)) is None


def test_one_element_keeps_its_axis_and_widens_the_result():
    text = (
        "kernel f(x: bf16[6, 4], w: bf16[4, 4], a: f32[1]) -> f32[6, 4] {\n"
        "    return reshape(softmax(reshape(layer_norm(x @ w), (6, 4, 1)), axis=1) + a, (6, 4))\n}\n"
    )
    made = compile_text(Source("t.mcu", text))
    inputs = [np.ones((6, 4)), np.arange(16.0).reshape(4, 4), np.array([0.3])]
    (meant,), (got,) = made.interpret("f", inputs), made.interpret_lowered("f", inputs)
    np.testing.assert_allclose(got, meant, rtol=1e-2)
