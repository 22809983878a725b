"""Depthwise convolutions of 16 bits by strips of outputs: their C++ on the host against the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import forced
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower
from mucc.kernels.conv.op import Strategy

PROGRAM = """
kernel usual[N](x: bf16[N, 9, 17, 40], w: bf16[40, 1, 3, 3], b: f32[40]) -> bf16[N, 9, 17, 40] {
  y = conv(permute(x, (0, 3, 1, 2)), w, pad=1, groups=40)
  return relu(permute(y, (0, 2, 3, 1)) + b)
}
kernel wide(x: f16[2, 20, 15, 24], w: f16[24, 7, 7], r: f16[2, 20, 15, 24]) -> f16[2, 20, 15, 24] {
  y = conv(permute(x, (0, 3, 1, 2)), w[:, None], pad=3, groups=24)
  return permute(y, (0, 2, 3, 1)) + r
}
kernel strided(x: bf16[1, 23, 12, 16], w: bf16[16, 1, 5, 3]) -> f32[1, 11, 4, 16] {
  y = conv(permute(x, (0, 3, 1, 2)), w, stride=(2, 3), pad=(1, 0), groups=16)
  return permute(cast(y, f32), (0, 2, 3, 1))
}
"""


def test_strips_agree_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))
    compilation = compile_text(Source("k.mcu", PROGRAM))
    assert compilation.cu().count("mucc::conv::strips(") == len(compilation.programs)
    program = Program.of(compilation, tmp_path)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 2)):
            run(program, info, dict.fromkeys(info.dims, 2 + seed), seed, align=align)
