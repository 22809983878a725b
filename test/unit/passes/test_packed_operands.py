"""Elements of s4 and u4 share bytes: what moves elements of a value computed from them moves the value."""

from __future__ import annotations

import numpy as np
import pytest

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source

CASES = {
    "(2 * p)[1:, ::2]": "7, 4",
    "flip(cast(p, f32)) + roll(p * 3, 1, axis=0) - (p + 1).T": "8, 8",
    "concat(p - 1, cast(q, f32), axis=0)": "16, 8",
    "pad(cast(p, s8), (1, 0), (0, 2), mode=replicate)": "9, 10",
    "cumsum((p + q)[:, ::-1], axis=1)": "8, 8",
    "sum((p - 1)[:, ::-1] * (2 * q), axis=1)": "8",
    "take_along(2 * p, i, axis=1)": "8, 3",
    "gather(bitwise_and(q, 3), i[:, 0])": "8, 8",
    "permute(reshape(cast(p, f32), (2, 4, 8)), (2, 0, 1))": "8, 2, 4",
    "permute(reshape(cast(p, f32), (2, 4, 8)), (1, 0, 2)) * sum(q, axis=0)": "4, 2, 8",
}


@pytest.mark.parametrize("dtype", ["s4", "u4"])
@pytest.mark.parametrize("expression", CASES)
def test_what_is_computed_from_shared_bytes_moves(expression: str, dtype: str) -> None:
    head = f"kernel f(p: {dtype}[8, 8], q: {dtype}[8, 8], i: s32[8, 3]) -> f32[{CASES[expression]}]"
    text = f"{head} {{ return {expression} }}"
    compilation = compile_text(Source("f.mcu", text), Options("sm_90a"))
    compilation.emit("cu")
    rng = np.random.default_rng(0)
    bytes_of = [rng.integers(0, 256, (8, 4)).astype(np.uint8) for _ in "pq"]
    arguments = [*bytes_of, rng.integers(0, 8, (8, 3)).astype(np.int32)]
    (want,) = compilation.interpret("f", arguments)
    (got,) = compilation.interpret_lowered("f", arguments)
    np.testing.assert_array_equal(got, want)
