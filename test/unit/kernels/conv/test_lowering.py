"""Lowered convolutions of random geometry: the kernels' meaning against that of the language, and layouts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget import examples
from builders import kernel, lowered
from geometries import convolutions, spread, text
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tensorlib import random

from mucc.cli.main import main
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.strategies import choose
from mucc.kernels.conv.wide import wide_tiles
from mucc.kernels.interpreter import interpret_program
from mucc.passes.pipeline import pipeline
from mucc.target import get_target


def compiled(mcu: str) -> ProgramOp:
    module = lowered(mcu)
    for step, level in pipeline("sm_90a"):
        step.apply(None, module)
        level.verify(module)
    (program,) = module.body.block.ops
    assert isinstance(program, ProgramOp)
    return program


def kernels(mcu: str) -> list[str]:
    return [op.name.removeprefix("cutlass.") for op in compiled(mcu).kernels]


def convolution(mcu: str) -> ConvKernelOp:
    (found,) = (op for op in compiled(mcu).kernels if isinstance(op, ConvKernelOp))
    return found


def shape(dims: Any) -> str:
    return f"f32[{', '.join(map(str, dims))}]"


def moved(name: str, axes: int, last: bool) -> str:
    """A parameter as `[N, C, ...]`, where its channels are last."""
    return f"permute({name}, {(0, axes + 1, *range(1, axes + 1))})" if last else name


@settings(max_examples=examples(80), deadline=None)
@given(convolutions(), st.booleans(), st.tuples(*[st.booleans()] * 3), st.data())
def test_kernels_compute_what_the_language_says(
    c: dict[str, Any], transposed: bool, last: tuple[bool, bool, bool], data: st.DataObject
) -> None:
    axes, groups, (inputs, outputs) = c["axes"], c["groups"], c["per_group"]
    numbers = [spread(c[name], axes) for name in ("stride", "pad", "dilation")]
    windows = [Window(*each) for each in zip(c["sizes"], *numbers, strict=True)]
    stride, pad, dilation = map(text, numbers)
    options = f"stride={stride}, pad={pad}, dilation={dilation}, groups={groups}"
    if transposed:
        more = [data.draw(st.integers(0, max(w.stride, w.dilation) - 1)) for w in windows]
        places = [w.spread(n, m) for w, n, m in zip(windows, c["extents"], more, strict=True)]
        channels, call = (groups * inputs, outputs), f"output_pad={text(more)}, {options}"
    else:
        places = [w.places(n) for w, n in zip(windows, c["extents"], strict=True)]
        channels, call = (groups * outputs, inputs), options
    assume(min(places) > 0)
    inner = range(1, axes + 1)

    def order(values: tuple[int, ...], is_last: bool) -> tuple[int, ...]:
        return (values[0], *values[2:], values[1]) if is_last else values

    x = order((c["batch"], groups * inputs, *c["extents"]), last[0])
    w = order((*channels, *c["sizes"]), last[1])
    y = order((c["batch"], groups * outputs, *places), last[2])
    function = "conv_transpose" if transposed else "conv"
    value = f"{function}({moved('x', axes, last[0])}, {moved('w', axes, last[1])}, {call})"
    if last[2]:
        value = f"permute({value}, {(0, *(i + 1 for i in inner), 1)})"
    mcu = f"kernel f(x: {shape(x)}, w: {shape(w)}, r: {shape(y)}) -> {shape(y)} {{ return {value} * 2 + r }}"
    given_ = [random(*x), random(*w), random(*y)]
    (want,), (got,) = interpret_kernel(kernel(mcu), given_), interpret_program(compiled(mcu), given_)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


PREFIX = "kernel k[N](x: bf16[N, 6, 8, 8], w: bf16[32, 6, 3, 3], b: f32[32, 1, 1], s: f32)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{PREFIX} -> bf16[N, 32, 8, 8] {{ return silu(conv(x, w, pad=1) * s + b) }}", ["conv"]),
        (f"{PREFIX} -> f32[N, 32, 6, 6] {{ h = conv(x, w) return where(h > b, h, 0) }}", ["conv"]),
        (f"{PREFIX} -> bf16[N, 32, 6, 6] {{ return conv(relu(x), w) }}", ["map", "conv"]),
        (f"{PREFIX} -> (y: bf16[N, 32, 8, 8], z: f32[N, 32, 8, 8]) "
         "{ h = conv(x, w, pad=1) return h + b, h }", ["conv"]),
        (f"{PREFIX} -> f32[N, 32] {{ return sum(conv(x, w), axis=(2, 3)) }}", ["conv", "reduce"]),
        ("kernel k(x: bf16[4, 8, 8, 16], w: bf16[32, 3, 3, 16], b: f32[32]) -> bf16[4, 8, 8, 32] {"
         " return relu(permute(conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), pad=1), (0, 2, 3, 1))"
         " + b) }", ["conv"]),
        ("kernel k(x: bf16[4, 8, 8, 16], w: bf16[32, 16, 3, 3]) -> bf16[4, 32, 8, 8] {"
         " return conv(permute(x, (0, 3, 1, 2)), w, pad=1) }", ["map", "conv"]),
        ("kernel k(x: bf16[4, 16, 8, 8], w: bf16[32, 16, 3, 3]) -> bf16[4, 32, 8, 8] {"
         " return conv(x, w, pad=1) }", ["map", "map", "conv"]),
        ("kernel k(x: bf16[4, 16, 1, 1], w: bf16[32, 16, 1, 1]) -> bf16[4, 32, 1, 1] { return conv(x, w) }",
         ["conv"]),
        ("kernel k(x: f32[4, 2, 9, 8], w: f32[3, 2, 3, 3]) -> f32[4, 3, 9, 8] {"
         " return conv(pad(x, (2, 0), (0, 2)), w) }", ["conv"]),
        ("kernel k(x: f32[4, 2, 9, 8], w: f32[3, 2, 3, 3]) -> f32[4, 3, 7, 6] {"
         " return conv(flip(x, axis=3), w) }", ["conv"]),
        ("kernel k(x: f32[4, 1, 9, 8], w: f32[3, 2, 3, 3]) -> f32[4, 3, 7, 6] {"
         " return conv(pad(x, (1, 0, 0), (0, 0, 0)), w) }", ["map", "conv"]),
        ("kernel k(x: f32[4, 2, 9], w: f32[3, 2, 3]) -> f32[4, 7, 3] { return conv(x, w).T }", ["conv"]),
    ],
)  # fmt: skip
def test_what_is_one_kernel(text: str, expected: list[str]) -> None:
    assert kernels(text) == expected


@pytest.mark.parametrize(
    ("groups", "channels", "outputs", "expected"),
    [
        (1, 3, 4, Strategy.DIRECT),
        (1, 3, 64, Strategy.DIRECT),
        (32, 32, 32, Strategy.DIRECT),
        (32, 32, 64, Strategy.DIRECT),
        (4, 64, 64, Strategy.TILES),
        (2, 4, 64, Strategy.DIRECT),
        (2, 16, 64, Strategy.TILES),
    ],
)
def test_groups_that_fill_little_of_a_tile_are_summed_up_directly(
    groups: int, channels: int, outputs: int, expected: Strategy
) -> None:
    x, w, y = f"[64, {channels}, 9]", f"[{outputs}, {channels // groups}, 3]", f"[64, {outputs}, 7]"
    op = convolution(f"kernel k(x: f16{x}, w: f16{w}) -> f16{y} {{ return conv(x, w, groups={groups}) }}")
    assert op.strategy.data is expected


@pytest.mark.parametrize(
    ("dtype", "sizes", "groups", "compute", "target", "expected"),
    [
        ("bf16", (64, 64, 64, 56), 1, "bf16", "sm_90a", Strategy.WARPGROUPS),
        ("f32", (64, 64, 64, 56), 1, "tf32", "sm_90a", Strategy.WARPGROUPS),
        ("f32", (64, 64, 64, 56), 1, "f32", "sm_90a", Strategy.TILES),
        ("f32", (64, 64, 64, 56), 1, "tf32x3", "sm_90a", Strategy.TILES),
        ("bf16", (64, 64, 64, 56), 1, "bf16", "sm_80", Strategy.TILES),
        ("bf16", (64, 60, 64, 56), 1, "bf16", "sm_90a", Strategy.PATCHES),
        ("bf16", (64, 256, 256, 56), 2, "bf16", "sm_90a", Strategy.WARPGROUPS),
        ("bf16", (64, 64, 64, 56), 2, "bf16", "sm_90a", Strategy.TILES),
        ("bf16", (1, 64, 64, 7), 1, "bf16", "sm_90a", Strategy.TILES),
    ],
)
def test_warpgroups_multiply_large_layers_whose_channels_fill_rows(
    dtype: str, sizes: tuple[int, int, int, int], groups: int, compute: str, target: str, expected: Strategy
) -> None:
    batch, channels, outputs, size = sizes
    rows, element = batch * size**2, 2 if dtype == "bf16" else 4
    own = channels // groups
    moved = element * (rows * (channels + outputs) + 9 * own * outputs)
    layer = Layer(rows, own, outputs // groups, groups, 9, compute, element, own % 8 == 0, moved)
    layer = layer._replace(windows=(Window(3, pad=1),) * 2, places=(size, size))
    assert choose(layer, get_target(target).facts) is expected


def test_tiles_fit_the_multiprocessor() -> None:
    facts = get_target("sm_90a").facts
    tiles = list(wide_tiles(facts))
    for is_persistent in (False, True):
        sizes = {(t.rows, t.columns) for t in tiles if t.is_persistent == is_persistent}
        assert sizes >= {(128, 64), (128, 128), (128, 256), (256, 128)}
    for tile in tiles:
        spread = 4 * max(tile.rows * (tile.columns + 8), tile.columns * (tile.rows + 4))
        stages = tile.stages * (tile.rows + tile.columns) * 128
        held = stages + spread if tile.is_persistent else max(stages, spread)
        shared = 1024 + held + tile.rows * 16 + tile.stages * 16
        assert shared <= facts.limits.shared_memory
        assert tile.resident * (shared + 1024) <= facts.multiprocessor.shared_memory


def test_an_explanation_says_what_each_strategy_takes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.mcu"
    path.write_text(
        "kernel k(x: f16[2, 8, 9], w: f16[8, 1, 3]) -> f16[2, 8, 7] { return conv(x, w, groups=8) }"
    )
    assert main([str(path), "--explain-schedule"]) == 0
    first, direct, warpgroups, matrices, planes, *more = capsys.readouterr().out.splitlines()
    positions, tiles, patches = more
    assert first == "k, stage out: on NVIDIA H200"
    assert re.fullmatch(r"  direct     [0-9.]+ us expected    \(chosen\)", direct)
    assert warpgroups == "  warpgroups the channels of a group are no multiple of 16 bytes"
    assert matrices == "  matrices   the channels of a group are no multiple of 16 bytes"
    assert planes == "  planes     factors that threads load one by one are multiplied as tf32"
    assert positions == "  positions  the window is not much larger than the result"
    assert re.fullmatch(r"  tiles      [0-9.]+ us expected", tiles)
    assert re.fullmatch(r"  patches    [0-9.]+ us expected \(\d+ positions, 8 channels\)", patches)
    path.write_text(
        "kernel k[N, M](x: f16[N, 8, 9], w: f16[8, 1, 3], b: f16[M]) -> (y: f16[N, 8, 7], z: f16[M]) {\n"
        "    return conv(x, w, groups=8), b\n"
        "}\n"
    )
    assert main([str(path), "--explain-schedule", "--dims", "N=2"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "k, stage y: N=2 M=? (taken as 8192) on NVIDIA H200"
    path.write_text(
        "kernel k(x: f16[64, 128, 56, 56] strides(_, 1, _, _), w: f16[256, 128, 3, 3])"
        " -> f16[64, 256, 56, 56] { return conv(x, w, pad=1) }"
    )
    assert main([str(path), "--explain-schedule"]) == 0
    warpgroups = capsys.readouterr().out.splitlines()[1]
    expected = r"  warpgroups [0-9.]+ us expected \(\d+x\d+\)    \(chosen\)"
    assert re.fullmatch(expected, warpgroups)
