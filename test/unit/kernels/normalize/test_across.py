"""Rows that lie across the threads of a normalize kernel: of large tensors a transposed copy is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.kernels.normalize import lower

PROGRAM = """\
kernel f(x: f32[{0}, {1}], y: f32[{1}, {0}], w: f32[{0}], v: f32[{1}, 1]) -> f32[{1}, {0}] {{
    return {2}
}}
"""
BODIES = {
    "softmax(x.T, axis=1)": True,
    "softmax(x.T + y * w, axis=1)": True,
    "layer_norm(pad(x.T, (0, 1), (0, 0))[:, :{0}])": False,
    "layer_norm(flip(x.T, axis=0))": False,
    "softmax(y * v, axis=1)": False,
    "softmax(x, axis=0).T": False,
}
"""Bodies of kernels, and whether they copy x."""


def text_of(body: str, rows: int, columns: int) -> str:
    return PROGRAM.format(rows, columns, body.format(rows))


@pytest.mark.parametrize("body", BODIES)
def test_large_tensors_across_the_threads_are_copied(body: str) -> None:
    def copies(rows: int, columns: int) -> int:
        return compile_text(Source("k.mcu", text_of(body, rows, columns))).emit("cu").count("::out_copy0 {")

    assert bool(copies(1024, 2048)) is BODIES[body] and not copies(64, 64)


def test_copies_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "ACROSS", 0)
    texts = [text_of(body, 66, 70).replace(" f(", f" f{n}(") for n, body in enumerate(BODIES)]
    program = Program.of_text("".join(texts), tmp_path)
    for seed, info in enumerate(program.kernels):
        run(program, info, {}, seed, within=2e-6)
