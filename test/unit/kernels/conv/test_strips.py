"""Depthwise convolutions of 16 bits by strips of outputs: their C++ on the host against the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import forced
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv import lower
from mucc.kernels.conv.op import Strategy
from mucc.kernels.conv.strips import best_strip
from mucc.target import get_target

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


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_89", "sm_120a"])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(3, 1, 1), (9, 2, 1), (5, 3, 2), (11, 1, 2)])
def test_strips_fit_the_shared_memory_of_a_target(target: str, size: int, stride: int, dilation: int) -> None:
    """A block keeps 64 bytes of each position that its outputs see, and an f32 of each tap and channel."""
    facts, window = get_target(target).facts, Window(size, stride, size // 2, dilation)
    for extent in (14, 56, 224):
        tile = best_strip(64, (extent, extent), [window, window], facts)
        if tile is not None:
            seen = [(outputs - 1) * stride + (size - 1) * dilation + 1 for outputs in tile.places]
            assert 64 * seen[0] * seen[1] + 4 * size**2 * 32 < facts.limits.shared_memory
    assert best_strip(64, (56, 56), [Window(3, 1, 1)] * 2, facts) is not None
