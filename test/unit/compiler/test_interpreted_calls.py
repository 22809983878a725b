"""Interpreters of a compilation refuse calls that do not fit with the codes that built kernels have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.library.errors import MuccError

TEXT = """
kernel f[S, T](q: f16[S, 64], k: f16[T, 64], v: f16[T, 64]) -> f16[S, 64] {
    return attention(q, k, v)
}
"""
CALLS = (
    (
        "f",
        [(0, 64), (5, 64), (5, 64)],
        "MU6007",
        "argument 'q' of f: extent S is 0",
    ),
    (
        "f",
        [(4, 64), (0, 64), (0, 64)],
        "MU6007",
        "argument 'k' of f: extent T is 0",
    ),
    ("f", [(4, 64), (5, 64), (6, 64)], "MU6006", "arguments of f: dim T is 5, but an array has extent 6"),
    (
        "f",
        [(4, 32), (5, 64), (5, 64)],
        "MU6006",
        "arguments of f: an extent must be 64, but",
    ),
    ("f", [(4, 64), (5, 64), (1, 5, 64)], "MU6004", "argument 'v' of f: expected f16[T, 64], got an array"),
    ("f", [(4, 64), (5, 64)], "MU6040", "f has 3 parameters (q, k, v), got 2"),
    ("g", [(4, 64), (5, 64), (5, 64)], "MU6037", "the program has no kernel 'g', it has f"),
)


@pytest.mark.parametrize("level", ["interpret", "interpret_stages", "interpret_lowered"])
@pytest.mark.parametrize(("kernel", "shapes", "code", "message"), CALLS)
def test_calls_that_do_not_fit(
    level: str, kernel: str, shapes: Sequence[tuple[int, ...]], code: str, message: str
) -> None:
    compilation = compile_text(Source("f.mcu", TEXT))
    with pytest.raises(MuccError) as caught:
        getattr(compilation, level)(kernel, [np.zeros(shape) for shape in shapes])
    assert caught.value.code == code
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("level", ["interpret", "interpret_stages", "interpret_lowered"])
@pytest.mark.parametrize("given", ["3", "text", b"7", None, {}, ["a", "b"]])
def test_arguments_that_are_no_numbers(level: str, given: object) -> None:
    compilation = compile_text(Source("s.mcu", "kernel f[N](x: f32[N], a: f32) -> f32[N] { return x * a }"))
    with pytest.raises(MuccError) as caught:
        getattr(compilation, level)("f", [np.zeros(3), given])
    assert caught.value.code == "MU6002"
    assert caught.value.message.startswith("argument 'a' of f: expected f32")
