"""Convolution kernels: their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from convolutions import forced
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower, wide_emission
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.wide import WideTile, wide_tile
from mucc.target import get_target
from mucc.target.facts import Facts

FACTS = get_target("sm_90a").facts
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
kernel eight(x: e4m3[2, 3, 13, 12], w: e4m3[40, 3, 5, 2], r: bf16[2, 40, 4, 11]) -> bf16[2, 40, 4, 11] {{
  return conv(x, w, stride=(3, 1), pad=(1, 0)) + r
}}
kernel integers(x: s8[2, 16, 5, 7] {NHWC}, w: s8[12, 16, 3, 3] {NHWC}) -> (
    y: s32[2, 5, 7, 12], z: s8[2, 5, 7, 12]
) {{
  y = permute(conv(x, w, pad=1), (0, 2, 3, 1))
  return y, y
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


WIDE = f"""
kernel usual(x: bf16[2, 72, 9, 7] {NHWC}, w: bf16[40, 72, 3, 3] {NHWC}, b: f32[40, 1, 1]) -> (
    y: bf16[2, 9, 7, 40]
) {{
  return permute(relu(conv(x, w, pad=1) + b), (0, 2, 3, 1))
}}
kernel strided[N](x: f16[N, 13, 11, 8], w: f16[33, 5, 2, 8], r: f16[N, 6, 12, 33]) -> f16[N, 6, 12, 33] {{
  y = conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), stride=(2, 1), pad=(1, 1))
  return permute(y, (0, 2, 3, 1)) + r
}}
kernel dilated(x: f16[1, 64, 12, 9] {NHWC}, w: f16[8, 64, 3, 3] {NHWC}) -> (
    y: f16[1, 8, 8, 16], z: f32[1, 8, 8, 16]
) {{
  y = conv(pad(x, (0, 5), (0, 4)), w, dilation=(2, 1)) * 2
  return y, y
}}
kernel groups(x: bf16[2, 128, 5, 6] {NHWC}, w: bf16[24, 64, 3, 3] {NHWC}) -> bf16[2, 3, 4, 24] {{
  return permute(conv(x, w, groups=2), (0, 2, 3, 1))
}}
kernel one(x: bf16[3, 24, 7, 8] {NHWC}, w: bf16[136, 24, 1, 1]) -> bf16[3, 136, 7, 8] {{ return conv(x, w) }}
kernel beyond(x: f16[2, 8, 2, 3] {NHWC}, w: f16[16, 8, 5, 7] {NHWC}) -> f16[2, 2, 3, 16] {{
  return permute(conv(x, w, pad=(2, 3)), (0, 2, 3, 1))
}}
kernel line(x: f32[2, 36, 37] strides(_, 1, _), w: f32[12, 36, 4] strides(_, 1, _)) -> f32[2, 12, 19] {{
  return conv(x, w, stride=2, pad=2)
}}
kernel solid(x: bf16[1, 8, 4, 5, 6] strides(_, 1, _, _, _), w: bf16[9, 8, 2, 3, 3]) -> bf16[1, 9, 3, 5, 3] {{
  return conv(x, w, pad=(0, 1, 1), stride=(1, 1, 2))
}}
kernel turned(x: bf16[2, 16, 5, 4] {NHWC}, w: bf16[16, 24, 3, 3]) -> bf16[2, 24, 5, 4] {{
  return conv_transpose(x, w, pad=1)
}}
kernel spread(x: f16[2, 40, 5, 4] {NHWC}, w: f16[40, 8, 4, 3]) -> f16[2, 10, 9, 8] {{
  return permute(conv_transpose(x, w, stride=2, pad=(1, 0)), (0, 2, 3, 1))
}}
kernel sparse(x: f32[1, 64, 3] strides(_, 1, _), w: f32[64, 8, 2]) -> f32[1, 16, 9] {{
  return conv_transpose(x, w, stride=3, output_pad=1, groups=2)
}}
kernel eight(x: e4m3[2, 144, 5, 4] {NHWC}, w: e4m3[40, 144, 3, 3] {NHWC}, b: f32[40]) -> bf16[2, 5, 4, 40] {{
  return relu(permute(conv(x, w, pad=1), (0, 2, 3, 1)) + b)
}}
kernel integers(x: s8[2, 16, 5, 4] {NHWC}, w: s8[16, 24, 3, 3]) -> f32[2, 24, 5, 4] {{
  return conv_transpose(x, w, pad=1)
}}
kernel far(x: bf16[1, 8, 40, 6] {NHWC}, w: bf16[8, 8, 3, 1] {NHWC}) -> bf16[1, 300, 6, 8] {{
  return permute(conv(x, w, pad=(200, 0), dilation=(70, 1)), (0, 2, 3, 1))
}}
kernel reduced(x: bf16[2, 72, 9, 7] {NHWC}, w: bf16[24, 72, 3, 3] {NHWC}) -> f32[2, 9, 7] {{
  return max(conv(x, w, pad=1), axis=1)
}}
kernel normed(
    x: bf16[3, 72, 9, 11] {NHWC}, w: bf16[72, 72, 1, 1] {NHWC}, mean: f32[72], scale: bf16[72], var: f32[72],
    r: bf16[3, 9, 11, 72],
) -> bf16[3, 9, 11, 72] {{
  y = (permute(conv(x, w), (0, 2, 3, 1)) - mean) * (1 / sqrt(abs(var) + 0.5)) * scale
  return relu(y + r)
}}
"""


STRATEGIES = {
    Strategy.TILES: (15, 6),
    Strategy.WARPGROUPS: (3, 1),
    Strategy.PATCHES: (13, 6),
    Strategy.DIRECT: (15, 6),
}
"""How many kernels of `TWO` and of `OTHERS` a strategy takes; those of none have other tests."""


def kernels_of(text: str) -> list[str]:
    """Divide a program into its kernels."""
    return [f"kernel {rest}" for rest in text.split("kernel ")[1:]]


def taken(text: str, strategy: Strategy) -> str:
    """Leave out kernels that a strategy does not take: another one computes them, and has them too."""
    programs = compile_text(Source("k.mcu", text)).programs
    return "".join(
        kernel
        for kernel, program in zip(kernels_of(text), programs, strict=True)
        if any(isinstance(op, ConvKernelOp) and op.strategy.data is strategy for op in program.kernels)
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", [TWO, OTHERS], ids=["two axes", "others"])
def test_each_strategy_agrees_with_the_interpreter(
    text: str, strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower, "choose", forced(strategy))
    program = Program.of_text(taken(text, strategy), tmp_path)
    program.library.on_host_sm_count(1)  # so that blocks compute several tiles
    assert len(program.kernels) == STRATEGIES[strategy][(TWO, OTHERS).index(text)]
    sizes = {"N": (1, 3), "C": (3, 8), "H": (4, 1), "W": (3, 9)}
    for info in program.kernels:
        for seed in range(2 if info.dims else 1):
            run(program, info, {name: sizes[name][seed] for name in info.dims}, seed)


TILES = (
    *(wide_tile(rows, columns, FACTS, "e4m3") for rows, columns in ((128, 64), (256, 32), (128, 96))),
    WideTile(128, 32, 5, 2, shares=4),
    WideTile(128, 64, 3, 2, is_persistent=True),
    WideTile(128, 32, 1, 1, is_persistent=True),
)
"""Three tiles that only differ in extents, and three in what else a tile may have."""

THIRDS = 3
"""Each tile meets a third of the kernels, and each kernel a tile of both halves; long tests take the rest."""


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, THIRDS))])
def test_tiles_of_warpgroups_agree_with_the_interpreter(
    tile: WideTile, share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower, "choose", forced(Strategy.WARPGROUPS))

    def best(layer: Layer, facts: Facts) -> WideTile:
        """Channels that are reduced have all of K in a block."""
        return tile._replace(shares=1) if layer.reduced else tile

    monkeypatch.setattr(wide_emission, "best_tile", best)
    text = "".join(kernels_of(WIDE)[(TILES.index(tile) + share) % THIRDS :: THIRDS])
    compilation = compile_text(Source("k.mcu", text))
    kernels = [op for p in compilation.cutlass.body.block.ops for op in p.kernels]
    strategies = {op.strategy.data for op in kernels if isinstance(op, ConvKernelOp)}
    assert strategies == {Strategy.WARPGROUPS}
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(1)  # so that a block has several tiles
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 2)):
            run(program, info, dict.fromkeys(info.dims, 2 + seed), seed, align=align)


PATCHES = f"""
kernel chunks(x: f32[2, 70, 6, 8], w: f32[9, 70, 3, 3], b: f32[9, 1, 1]) -> f32[2, 9, 6, 8] {{
  return relu(conv(x, w, pad=1) + b)
}}
kernel kept(x: bf16[3, 9, 21, 5] {NHWC}, w: bf16[20, 9, 3, 2] {NHWC}) -> bf16[3, 10, 2, 20] {{
  return permute(conv(x, w, stride=2), (0, 2, 3, 1))
}}
kernel pointwise[C](x: f32[2, C, 9, 16], w: f32[40, C, 1, 1]) -> f32[2, 40, 9, 16] {{ return conv(x, w) }}
kernel moved(x: f16[1, 3, 12, 20], w: f16[16, 3, 5, 7], r: f16[1, 16, 6, 10]) -> f16[1, 16, 6, 10] {{
  return conv(x, w, stride=2, pad=(2, 3)) + r
}}
kernel classes(x: f32[2, 24, 3, 4, 8], w: f32[24, 5, 3, 4, 5]) -> f32[2, 15, 6, 9, 15] {{
  return conv_transpose(x, w, stride=2, pad=(1, 1, 2), groups=3, output_pad=(1, 1, 0))
}}
kernel sparse(x: f32[1, 4, 3, 4], w: f32[4, 6, 2, 3]) -> f32[1, 6, 11, 24] {{
  return conv_transpose(x, w, stride=(4, 5), dilation=(2, 3), output_pad=(0, 2))
}}
kernel turned(x: bf16[2, 16, 5, 4] {NHWC}, w: bf16[16, 24, 3, 3]) -> bf16[2, 5, 4, 24] {{
  return permute(conv_transpose(x, w, pad=1), (0, 2, 3, 1))
}}
kernel placed(x: f32[2, 2, 6, 8], w: f32[3, 2, 3, 3]) -> f32[2, 3, 7, 9] {{
  return conv(pad(x, (2, 1), (1, 2)), w)
}}
kernel line(x: f32[2, 6, 300], w: f32[8, 3, 4]) -> f32[2, 8, 151] {{
  return conv(x, w, stride=2, pad=2, groups=2)
}}
"""


def test_patches_agree_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "choose", forced(Strategy.PATCHES))
    compilation = compile_text(Source("k.mcu", PATCHES))
    kernels = [op for p in compilation.cutlass.body.block.ops for op in p.kernels]
    assert {op.strategy.data for op in kernels if isinstance(op, ConvKernelOp)} == {Strategy.PATCHES}
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(2)
    for info in program.kernels:
        for seed, align in product((0, 1), (4, 16)):
            run(program, info, dict.fromkeys(info.dims, 3 + seed * 61), seed, align=align)


LINES = """
kernel usual(x: f32[2, 6, 21, 12], w: f32[6, 1, 3, 3]) -> f32[2, 6, 21, 12] {
  return conv(x, w, pad=1, groups=6)
}
kernel pairs(x: f32[2, 3, 9, 16], w: f32[6, 1, 3, 3], b: f32[6, 1, 1]) -> f32[2, 6, 7, 14] {
  return conv(x, w, groups=3) + b
}
kernel odd(x: bf16[1, 4, 13, 20], w: bf16[4, 1, 7, 7]) -> bf16[1, 4, 7, 9] {
  return conv(x, w, stride=2, pad=(3, 2), groups=4)
}
kernel tall(x: f32[2, 4, 30, 8], w: f32[4, 1, 3, 1]) -> f32[2, 4, 28, 8] { return conv(x, w, groups=4) }
kernel dilated(x: f16[2, 4, 5, 6, 24], w: f16[8, 2, 2, 3, 3]) -> f16[2, 8, 4, 4, 22] {
  return conv(x, w, pad=(0, 1, 2), dilation=(1, 2, 3), groups=2)
}
kernel line[N](x: f32[N, 4, 36], w: f32[4, 1, 4], y: f32[N, 4, 35]) -> f32[N, 4, 35] {
  return conv(x, w, pad=1, groups=4) + y
}
"""


def test_lines_agree_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))
    program = Program.of(compile_text(Source("k.mcu", LINES)), tmp_path)
    for info in program.kernels:
        for seed, align in product((0, 1), (4, 16)):
            run(program, info, dict.fromkeys(info.dims, 2), seed, align=align)
