"""Convolutions of planes of x: their tiles, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv import lower, planes_emission
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.planes import best_plane, plane_cycles, plane_tiles
from mucc.kernels.conv.strategies import Planes
from mucc.target import get_target
from mucc.target.facts import Facts

FACTS = get_target("sm_90a").facts

PLANES = """
kernel usual[N](x: f32[N, 40, 9, 12], w: f32[20, 40, 3, 3], b: f32[20, 1, 1]) -> f32[N, 20, 9, 12] {
  return relu(conv(x, w, pad=1) + b)
}
kernel strided(x: f32[2, 8, 13, 16], w: f32[9, 8, 3, 2], r: f32[2, 9, 7, 8]) -> (
    y: f32[2, 9, 7, 8], z: f32[2, 9, 7, 8]
) {
  y = conv(x, w, stride=2, pad=(1, 0)) * 2
  return y + r, y
}
kernel line(x: f32[2, 72, 300], w: f32[8, 72, 4]) -> f32[2, 8, 294] {
  return conv(x, w, pad=3, dilation=4)
}
kernel solid(x: f32[1, 12, 5, 4, 8], w: f32[33, 12, 2, 3, 3]) -> f32[1, 33, 4, 4, 8] {
  return conv(x, w, pad=(0, 1, 1))
}
kernel groups(x: f32[2, 64, 5, 8], w: f32[24, 32, 3, 3]) -> f32[2, 3, 6, 24] {
  return permute(conv(x, w, groups=2), (0, 2, 3, 1))
}
kernel turned(x: f32[2, 36, 5, 4], w: f32[36, 12, 3, 3]) -> f32[2, 12, 5, 4] {
  return conv_transpose(x, w, pad=1)
}
kernel spread(x: f32[2, 16, 5, 20], w: f32[16, 6, 4, 3], b: f32[6, 1, 1]) -> f32[2, 6, 10, 40] {
  return conv_transpose(x, w, stride=2, pad=1, output_pad=(0, 1)) + b
}
kernel sparse(x: f32[1, 64, 3, 2, 4], w: f32[64, 2, 2, 3, 2]) -> f32[1, 4, 6, 7, 12] {
  return conv_transpose(x, w, stride=(2, 3, 3), pad=(0, 1, 0), dilation=(1, 2, 1), groups=2,
                        output_pad=(0, 1, 1))
}
kernel placed(x: f32[2, 8, 6, 8], w: f32[3, 8, 3, 3]) -> f32[2, 3, 7, 10] {
  return conv(pad(x, (2, 1), (1, 3)), w)
}
kernel pointwise(x: f32[3, 32, 7, 8], w: f32[136, 32, 1, 1]) -> f32[3, 136, 7, 8] { return conv(x, w) }
"""


def forced(layer: Layer, facts: Facts) -> Strategy:
    assert best_plane(layer, facts) is not None
    return Strategy.PLANES


@pytest.mark.parametrize("rows", [128, 256])
def test_planes_agree_with_the_interpreter(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def best(layer: Layer, facts: Facts) -> object:
        tiles = [tile for tile in plane_tiles(layer, facts) if tile.rows == rows or len(layer.windows) == 1]
        return min(tiles, key=lambda tile: plane_cycles(tile, layer, facts))

    monkeypatch.setattr(lower, "choose", forced)
    monkeypatch.setattr(planes_emission, "best_plane", best)
    compilation = compile_text(Source("k.mcu", PLANES))
    kernels = [op for p in compilation.programs for op in p.kernels]
    assert {op.strategy.data for op in kernels if isinstance(op, ConvKernelOp)} == {Strategy.PLANES}
    program = Program.of(compilation, tmp_path)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 4)):
            run(program, info, dict.fromkeys(info.dims, 2 + seed * 7), seed, align=align)


def layer(channels: int, outputs: int, windows: tuple[Window, ...], places: tuple[int, ...]) -> Layer:
    taps, rows = math.prod(w.size for w in windows), 4 * math.prod(places)
    return Layer(
        rows,
        channels,
        outputs,
        1,
        taps,
        "tf32",
        4,
        channels % 4 == 0,
        4 * rows,
        1,
        windows,
        places,
        vectors=True,
    )


@pytest.mark.parametrize("channels", [4, 40, 300])
def test_tiles_fit_the_multiprocessor(channels: int) -> None:
    given = layer(channels, 100, (Window(3, 2, 1), Window(3, 1, 1), Window(5, 1, 2)), (18, 30, 64))
    tiles = list(plane_tiles(given, FACTS))
    assert {tile.rows for tile in tiles} >= {128}
    for tile in tiles:
        staged = tile.stages_x * tile.stage_bytes + tile.stages_w * tile.columns * 128
        assert tile.resident * (staged + 2048) <= FACTS.multiprocessor.shared_memory
        # Four channels by eight positions of a fragment lie in banks of their own.
        banks = {(k * math.prod(tile.box) + i) % 32 for k in range(4) for i in range(8)}
        assert len(banks) == 32 and tile.box[2] % 4 == 0 and max(tile.box) <= 256
        assert tile.box[0] >= 2 * tile.places[0] + 1 and tile.box[2] >= tile.places[2] + 4 + 2
    best = best_plane(given, FACTS)
    assert best is not None
    assert all(plane_cycles(best, given, FACTS) <= plane_cycles(tile, given, FACTS) for tile in tiles)


def test_what_the_copy_engine_cannot_map_is_refused() -> None:
    given = layer(32, 64, (Window(3, 1, 0), Window(3, 1, 0)), (64, 64))
    assert Planes().refused(given, FACTS) is None
    others = {
        "lines": given._replace(vectors=False),
        "tf32": given._replace(compute="bf16"),
        "16 bytes": given._replace(whole=False),
        "128 bytes": given._replace(groups=2, channels=20),
    }
    for word, other in others.items():
        assert word in (Planes().refused(other, FACTS) or "")
    assert "wgmma" in (Planes().refused(given, get_target("sm_80").facts) or "")
