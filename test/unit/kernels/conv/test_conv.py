"""Convolution kernels: their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower
from mucc.kernels.conv.op import Strategy

NHWC = "strides(_, 1, _, _)"
TWO = f"""
kernel bias[N](x: f32[N, 5, 9, 11], w: f32[7, 5, 3, 3], b: f32[7, 1, 1]) -> f32[N, 7, 9, 11] {{
  return relu(conv(x, w, pad=1) + b)
}}
kernel strided(x: bf16[2, 3, 13, 8], w: bf16[40, 3, 5, 2], r: bf16[2, 40, 4, 5], s: f32) -> (
    y: bf16[2, 40, 4, 5], z: f32[2, 40, 4, 5]
) {{
  y = conv(x, w, stride=(3, 2), pad=(1, 1), dilation=(1, 1)) * s
  return y + r, y
}}
kernel channels_last(x: f16[2, 16, 7, 10] {NHWC}, w: f16[24, 16, 3, 3] {NHWC}) -> f16[2, 24, 7, 10] {{
  return relu(conv(x, w, pad=(2, 1), dilation=(2, 1)))
}}
kernel mixed(x: bf16[3, 8, 6, 6] {NHWC}, w: bf16[9, 8, 3, 3]) -> bf16[3, 9, 4, 4] {{ return conv(x, w) }}
kernel exact(x: f32[2, 4, 8, 8], w: f32[4, 4, 2, 2]) -> f32[2, 4, 4, 4] {{
  return conv(x, w, stride=2, compute=f32)
}}
kernel pointwise[N, C](x: f32[N, C, 6, 5], w: f32[70, C, 1, 1]) -> f32[N, 70, 6, 5] {{
  return conv(x, w, compute=tf32x3)
}}
kernel grouped(x: f32[2, 12, 5, 8], w: f32[6, 4, 3, 3]) -> f32[2, 6, 5, 8] {{
  return conv(x, w, pad=1, groups=3)
}}
kernel several(x: f32[2, 9, 17], w: f32[18, 1, 4], b: f32[18, 1]) -> f32[2, 18, 9] {{
  return conv(x, w, stride=2, pad=2, groups=9) + b
}}
kernel plane(x: bf16[2, 6, 11, 8], w: bf16[6, 1, 3, 5]) -> bf16[2, 6, 9, 4] {{
  return conv(x, w, pad=(1, 2), dilation=(2, 1), stride=(1, 2), groups=6)
}}
kernel lanes(x: bf16[2, 16, 7, 5] {NHWC}, w: bf16[16, 1, 3, 3]) -> bf16[2, 7, 5, 16] {{
  return permute(conv(x, w, pad=1, groups=16), (0, 2, 3, 1))
}}
kernel depthwise(x: f16[2, 6, 5, 8] {NHWC}, w: f16[12, 1, 3, 3]) -> f16[2, 12, 3, 4] {{
  return conv(x, w, pad=1, stride=2, groups=6)
}}
kernel kept[H, W](x: f32[1, 2, H, W], w: f32[3, 2, 3, 5]) -> f32[1, 3, H, W] {{
  return conv(x, w, pad=(1, 2))
}}
kernel padded(x: f32[2, 2, 6, 7], w: f32[3, 2, 3, 3]) -> f32[2, 3, 7, 6] {{
  return conv(pad(x, (2, 0), (1, 1)), w)
}}
"""
OTHERS = f"""
kernel line(x: f32[2, 3, 17], w: f32[5, 3, 4]) -> f32[2, 5, 9] {{ return conv(x, w, stride=2, pad=2) }}
kernel solid(x: f32[1, 3, 5, 4, 6], w: f32[4, 3, 2, 3, 3]) -> f32[1, 4, 4, 4, 6] {{
  return conv(x, w, pad=(0, 1, 1))
}}
kernel spread(x: f32[2, 3, 5, 4], w: f32[3, 6, 4, 4], b: f32[6, 1, 1]) -> f32[2, 6, 10, 8] {{
  return conv_transpose(x, w, stride=2, pad=1) + b
}}
kernel turned(x: bf16[2, 8, 5, 4] {NHWC}, w: bf16[8, 6, 3, 3]) -> bf16[2, 6, 5, 4] {{
  return conv_transpose(x, w, pad=1)
}}
kernel sparse(x: f32[1, 4, 3, 5], w: f32[4, 2, 2, 3]) -> f32[1, 4, 9, 20] {{
  return conv_transpose(x, w, stride=(3, 4), output_pad=1, groups=2)
}}
kernel dilated(x: f32[2, 3, 6], w: f32[3, 4, 3]) -> f32[2, 4, 22] {{
  return conv_transpose(x, w, stride=4, dilation=2, pad=2, output_pad=1)
}}
"""


@pytest.fixture(scope="module", params=list(Strategy))
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return request.param


@pytest.fixture(scope="module", params=[TWO, OTHERS], ids=["two axes", "others"])
def program(
    request: pytest.FixtureRequest, strategy: Strategy, tmp_path_factory: pytest.TempPathFactory
) -> Program:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower, "choose", lambda *_: strategy)
        compilation = compile_text(Source("k.mcu", request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("conv"))


def test_each_strategy_agrees_with_the_interpreter(program: Program) -> None:
    sizes = {"N": (1, 3), "C": (3, 8), "H": (4, 1), "W": (3, 9)}
    for info in program.kernels:
        for seed in range(2 if info.dims else 1):
            run(program, info, {name: sizes[name][seed] for name in info.dims}, seed)
