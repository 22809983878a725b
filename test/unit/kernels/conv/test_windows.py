"""Pools of a convolution's result in its kernel: which join, and their C++ on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import check_on_host, convolutions

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv.op import Strategy

PROGRAM = """
kernel most[N](x: f32[N, 8, 9, 12], w: f32[40, 8, 3, 3], b: f32[40]) -> f32[N, 40, 4, 6] {
  return mish(max_pool(relu(conv(x, w, pad=1) + b[:, None, None]), 2) * b[:, None, None])
}
kernel mean_of(x: f32[2, 4, 11, 20], w: f32[9, 4, 2, 2], r: f32[10, 19]) -> f32[2, 9, 2, 4] {
  return sigmoid(avg_pool(tanh(conv(x, w)) * r, 4))
}
kernel uneven(x: bf16[2, 3, 8, 8], w: bf16[6, 3, 3, 3], s: f32[6, 3, 1]) -> (
    y: bf16[2, 6, 3, 3], z: f32[2, 6, 3, 3]
) {
  h = max_pool(conv(x, w, stride=(1, 1)), (2, 2))
  return h + s, h
}
kernel solid(x: f32[1, 12, 5, 6, 12], w: f32[33, 12, 2, 3, 3], b: f32[33]) -> f32[1, 33, 2, 3, 6] {
  return max_pool(conv(x, w, pad=(0, 1, 1)) + b[:, None, None, None], 2)
}
kernel turned(x: f32[2, 8, 5, 8], w: f32[8, 6, 3, 3]) -> f32[2, 6, 5, 4] {
  return max_pool(conv_transpose(x, w, pad=1), (1, 2))
}
kernel spread(x: f32[2, 3, 4, 5, 6], w: f32[3, 6, 3, 3, 3], b: f32[6]) -> f32[2, 6, 3, 4, 5] {
  return max_pool(relu(conv_transpose(x, w, stride=2, pad=1)) * b[:, None, None, None], 2) + 1
}
kernel wide(x: f32[1, 4, 9, 6], w: f32[4, 5, 3, 4], r: f32[18, 24]) -> f32[1, 5, 4, 6] {
  return avg_pool(conv_transpose(x, w, stride=(2, 4), pad=(1, 0)) + r[0:17, :], 4)
}
kernel groups(x: f32[2, 64, 6, 8], w: f32[24, 32, 3, 3]) -> f32[2, 24, 2, 3] {
  return avg_pool(conv(x, w, groups=2), 2)
}
kernel square(x: f32[4, 8, 8, 8], w: f32[4, 8, 1, 1]) -> (y: f32[4, 4, 4, 4], z: f32[4, 4, 4, 4]) {
  h = max_pool(conv(x, w), 2)
  return relu(h.T) + h, permute(h, (1, 0, 2, 3))
}
kernel line(x: f16[3, 8, 35], w: f16[70, 8, 4]) -> f16[3, 70, 8] { return max_pool(conv(x, w), 4) }
"""


@pytest.mark.parametrize("strategy", [Strategy.TILES, Strategy.PLANES, Strategy.PATCHES])
def test_kernels_agree_with_the_interpreter(
    strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(op.pool is not None for op in check_on_host(PROGRAM, strategy, tmp_path, monkeypatch))


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("max_pool(conv(x, w), 2, stride=1)", "2, 8, 7"),
        ("max_pool(conv(x, w), 2, pad=1)", "2, 8, 5"),
        ("max_pool(conv(x, w), 3)", "2, 8, 2"),
        ("avg_pool(conv(x, w), 2, divisor=3)", "2, 8, 4"),
        ("max_pool(softmax(conv(x, w), axis=1), 2)", "2, 8, 4"),
        ("h = conv(x, w) return max_pool(h, 2) + mean(h, axis=2, keepdims=on)", "2, 8, 4"),
    ],
)
def test_others_are_kernels_of_their_own(body: str, result: str) -> None:
    body = body if "return" in body else f"return {body}"
    text = f"kernel k(x: f32[2, 8, 9], w: f32[8, 8, 2]) -> f32[{result}] {{ {body} }}"
    (kernel,) = convolutions(compile_text(Source("k.mcu", text)))
    assert kernel.pool is None


@pytest.mark.parametrize(("groups", "pooled"), [(1, True), (4, True), (8, False)])
def test_channels_alone_are_pooled_by_another_kernel(groups: int, pooled: bool) -> None:
    """`direct` computes them, which has no windows."""
    w = f"w: f32[8, {8 // groups}, 3, 3]"
    body = f"return max_pool(conv(x, w, pad=1, groups={groups}), 2)"
    text = f"kernel k(x: f32[2, 8, 16, 16], {w}) -> f32[2, 8, 8, 8] {{ {body} }}"
    (op,) = convolutions(compile_text(Source("k.mcu", text)))
    assert (op.pool is not None) is pooled


def test_what_warpgroups_multiply_is_pooled_by_another_kernel() -> None:
    parameters = "x: bf16[64, 128, 56, 56] strides(_, 1, _, _), w: bf16[128, 128, 3, 3] strides(_, 1, _, _)"
    text = f"kernel k({parameters}) -> bf16[64, 128, 27, 27] {{ return max_pool(conv(x, w), 2) }}"
    (kernel,) = convolutions(compile_text(Source("k.mcu", text)))
    assert kernel.strategy.data is Strategy.WARPGROUPS and kernel.pool is None
