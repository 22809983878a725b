"""Pointwise work on convolutions moves behind a permutation that puts channels last, or stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source


@pytest.mark.parametrize(
    "body",
    [
        "y / sum(y, axis=1, keepdims=on)",
        "y - mean(y, axis=1, keepdims=on) + c[:, 1:]",
        "y * max(y, axis=2, keepdims=on)",
        "tanh(y) * c[:1, :1]",
        "relu(y) + exp(c[0, 0])",
    ],
)
def test_values_are_those_of_the_written_order(body: str) -> None:
    """Also where an operand of the last operation cannot be viewed with channels last."""
    text = f"""kernel k(a: f32[2, 4, 8], b: f32[6, 4, 3], c: f32[2, 7, 6]) -> f32[2, 6, 6] {{
  y = conv(a, b, compute=f32)
  return permute({body}, (0, 2, 1))
}}
"""
    compilation = compile_text(Source("k.mcu", text))
    random = np.random.default_rng(0)
    given = [random.random(shape) + 0.5 for shape in ((2, 4, 8), (6, 4, 3), (2, 7, 6))]
    (expected,), (got,) = compilation.interpret("k", given), compilation.interpret_lowered("k", given)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
