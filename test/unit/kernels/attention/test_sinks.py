"""Sinks of attention: their text, what refuses them, and attention with them where no kernel has it whole."""

from __future__ import annotations

import numpy as np
import pytest

import mucc.frontend as frontend
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.frontend.source import module_text


def _text(sinks: str, value: str = "s", rows: str = "S") -> str:
    operands = f"q: f32[B, H, {rows}, 8], k: f32[B, H, T, 8], v: f32[B, H, T, 8], m: f32[{rows}, T]"
    dims = "B, H, S, T" if rows == "S" else "B, H, T"
    return f"""kernel a[{dims}]({operands}, s: {sinks}) -> f32[B, H, {rows}, 8] {{
    return attention(q, k, v, mask=m, sinks={value})
}}
"""


@pytest.mark.parametrize("value", ["s", "s[:, None, None]", "s[None, :, None, None] * 2"])
def test_text_parses_back(value: str) -> None:
    program, sink = frontend.parse(Source("x.mcu", _text("f32[H]", value)))
    module = frontend.lower(program, sink)
    again, sink = frontend.parse(Source("x.mcu", module_text(module)))
    assert str(frontend.lower(again, sink)) == str(module)


@pytest.mark.parametrize("sinks", ["f32[T]", "s32[H]", "f32[B, H, S, 1]", "f32[B, B, H]"])
def test_sinks_of_other_extents_and_integers_are_refused(sinks: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("k.mcu", _text(sinks)))
    assert [d.code for d in caught.value.diagnostics] == ["MU1103"]


def test_decomposed_attention_leaves_sinks_their_share() -> None:
    compilation = compile_text(Source("k.mcu", _text("f32[H]", rows="4")))
    assert "mu.attention" not in compilation.emit("stages")
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 3, n, 8)) for n in (4, 6, 6))
    m, s = rng.standard_normal((4, 6)), rng.standard_normal(3)
    m[1] = -np.inf
    scores = q @ np.swapaxes(k, -1, -2) / 8**0.5 + m
    sinks = np.broadcast_to(s[None, :, None, None], (2, 3, 4, 1))
    raised = np.exp(np.concatenate((scores, sinks), -1))
    expected = (raised / raised.sum(-1, keepdims=True))[..., :-1] @ v
    for found in (
        compilation.interpret("a", [q, k, v, m, s]),
        compilation.interpret_stages("a", [q, k, v, m, s]),
    ):
        np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-12)
