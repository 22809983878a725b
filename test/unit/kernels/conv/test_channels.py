"""Reductions over the channels of a convolution in its kernel: which join, and their C++ on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import check_on_host, convolutions

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv.op import Strategy

PROGRAM = """
kernel least[N](x: f32[N, 5, 9, 11], w: f32[7, 5, 3, 3], b: f32[7, 1, 1]) -> f32[N, 1, 9, 11] {
  return tanh(min(conv(x, w, pad=1) + b, axis=1, keepdims=on)) * 2
}
kernel shares(x: f32[2, 8, 6, 8], w: f32[40, 8, 3, 3], b: f32[40], r: f32[6, 8]) -> f32[2, 40, 6, 8] {
  y = softmax(conv(x, w, pad=1) + b[:, None, None], axis=1)
  return sigmoid((y + b[:, None, None]) * r)
}
kernel two(x: bf16[3, 4, 13], w: bf16[9, 4, 4], g: f32[3, 6]) -> (
    y: f32[3, 6], z: bf16[3, 9, 6], s: f32[3, 6]
) {
  h = relu(conv(x, w, stride=2, pad=1))
  return logsumexp(h, axis=1) * g, h, amax(h, axis=1)
}
kernel last(x: f16[2, 5, 6, 16], w: f16[24, 3, 3, 16]) -> (y: f16[2, 5, 6, 24], m: f32[2, 5, 6]) {
  h = permute(conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), pad=1), (0, 2, 3, 1))
  return layer_norm(h), mean(h, axis=3)
}
kernel spread(x: f32[2, 8, 3, 5, 4], w: f32[8, 6, 3, 3, 2], t: f32[1]) -> f32[2, 1, 6, 10, 8] {
  h = logsumexp(conv_transpose(x, w, stride=2, pad=(1, 1, 0), output_pad=(1, 1, 0)), axis=1, keepdims=on)
  return clamp(h * sigmoid(h + 3) - t, -1, 1)
}
kernel many(x: f32[1, 12, 6, 20], w: f32[104, 12, 1, 1]) -> f32[1, 6, 20] { return max(conv(x, w), axis=1) }
kernel alone(x: f16[1, 4, 7, 9], w: f16[12, 4, 3, 3], b: f32[7, 9]) -> (y: f32[12, 7, 9], m: f32[1, 7, 9]) {
  h = conv(x, w, pad=1)
  return min(softmax(h, axis=1), axis=0) + b, max(h, axis=1)
}
"""


@pytest.mark.parametrize("strategy", [Strategy.TILES, Strategy.WARPGROUPS, Strategy.PLANES, Strategy.PATCHES])
def test_kernels_agree_with_the_interpreter(
    strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(op.is_reduced for op in check_on_host(PROGRAM, strategy, tmp_path, monkeypatch))


@pytest.mark.parametrize(
    ("body", "outputs", "result"),
    [
        ("min(conv(x, w), axis=1)", 200, "2, 8"),
        ("min(conv(x, w), axis=2)", 8, "2, 8"),
        ("max(conv(x, w), axis=(1, 2))", 8, "2"),
        ("prod(conv(x, w), axis=1)", 8, "2, 8"),
        ("sum(conv(x, w, groups=2), axis=1)", 8, "2, 8"),
    ],
)
def test_others_are_kernels_of_their_own(body: str, outputs: int, result: str) -> None:
    channels = 4 if "groups" in body else 8
    text = f"kernel k(x: f32[2, 8, 9], w: f32[{outputs}, {channels}, 2]) -> f32[{result}] {{ return {body} }}"
    (kernel,) = convolutions(compile_text(Source("k.mcu", text)))
    assert not kernel.is_reduced


def test_tiles_have_all_channels() -> None:
    parameters = "x: f32[8, 64, 64, 64], w: f32[128, 64, 3, 3]"
    text = f"kernel k({parameters}) -> f32[8, 62, 62] {{ return min(conv(x, w), axis=1) }}"
    compilation = compile_text(Source("k.mcu", text))
    (kernel,) = convolutions(compilation)
    assert kernel.strategy.data is Strategy.PLANES
    assert ", 128, 32, " in compilation.emit("cu").split("PlaneTile<")[1].split(";")[0]
    assert "kReduces = true" in compilation.emit("cu")
