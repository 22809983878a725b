"""Depthwise convolutions by strips of outputs: their C++ on the host, and their tiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from convolutions import forced
from on_host import Program, run
from ptx_host import Spliced, compare

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv import direct_emission, lower
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.strategies import expected
from mucc.kernels.conv.strips import REGISTERS, SHARED, Strip, StripTile, best_strip, lanes_of
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
kernel dilated(x: f32[2, 13, 9, 12], w: f32[12, 1, 3, 3]) -> f32[2, 11, 9, 12] {
  y = conv(permute(x, (0, 3, 1, 2)), w, pad=(2, 3), dilation=(3, 3), groups=12)
  return permute(y, (0, 2, 3, 1))[:, :11]
}
kernel large(x: bf16[1, 13, 12, 16], w: bf16[11, 11, 16]) -> bf16[1, 13, 12, 16] {
  y = conv(permute(x, (0, 3, 1, 2)), permute(w, (2, 0, 1))[:, None], pad=5, groups=16)
  return permute(y, (0, 2, 3, 1))
}
kernel open[N, H, W](x: bf16[N, H, W, 8], w: bf16[8, 1, 5, 5], s: bf16[8])
    -> (y: bf16[N, H, W, 8], z: bf16[N, H, W, 8]) {
  c = permute(conv(permute(x, (0, 3, 1, 2)), w, pad=2, groups=8), (0, 2, 3, 1))
  return c, relu(c * s)
}
"""


def _check(tmp_path: Path, text: str) -> None:
    compilation = compile_text(Source("k.mcu", text))
    assert compilation.cu().count("mucc::conv::strips(") == len(compilation.programs)
    program = Program.of(compilation, tmp_path)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 2)):
            dims = {name: 2 + seed + 7 * i for i, name in enumerate(info.dims)}
            run(program, info, dims, seed, align=align)


def test_strips_agree_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))
    _check(tmp_path, PROGRAM)


@pytest.mark.parametrize("tile", [(2, 3, 5, 1, 2), (4, 4, 3, 2, 5), (4, 2, 32, 4, 4), (2, 12, 3, 7, 7)])
def test_tiles_agree_with_the_interpreter(
    tile: tuple[int, int, int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are larger than an image or have lanes for more channels than there are."""
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))

    def fixed(*_: object) -> StripTile:
        return StripTile(*tile)

    monkeypatch.setattr(direct_emission, "best_strip", fixed)
    _check(tmp_path, PROGRAM)


def test_ptx_of_strips_agrees_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the device what lies outside of x is not loaded, by instructions that the host does not have."""
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))
    program = Spliced.of_text(PROGRAM, tmp_path)
    for info in program.kernels:
        dims = {name: 2 + 3 * i for i, name in enumerate(info.dims)}
        assert all(found.meaning < 1e-2 for found in compare(program, info, dims, 0, align=16))
    launched = [name for name in program.kernel_names() if program.machine.launches(name)]
    assert launched == [name for name in program.kernel_names() if name.endswith("_strips")]


def test_what_strips_store_by_vectors_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large windows would have narrower vectors without strips, and a launch tests that tensors fit those."""
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))
    text = compile_text(Source("k.mcu", PROGRAM)).cu()
    found = re.findall(r"kVector = (\d+).*?StripTile<(\d+)", text, re.DOTALL)
    assert "kVectors = true" in text and len(found) == PROGRAM.count("kernel ")
    assert all(int(vector) >= 4 and int(vector) % int(strip) == 0 for vector, strip in found)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_89", "sm_120a"])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(3, 1, 1), (9, 2, 1), (5, 3, 2), (11, 1, 2)])
@pytest.mark.parametrize("element_bytes", [2, 4])
def test_strips_fit_a_multiprocessor(
    target: str, size: int, stride: int, dilation: int, element_bytes: int
) -> None:
    facts, window = get_target(target).facts, Window(size, stride, size // 2, dilation)
    for extent in (7, 14, 56, "H"):
        tile = best_strip(64, "N", (extent, extent), [window, window], element_bytes, facts)
        assert tile is not None
        strip = Strip(tile, [window, window], element_bytes)
        assert strip.registers <= REGISTERS and strip.shared <= SHARED and strip.blocks(facts) >= 1
        assert tile.threads <= 256 and 64 % tile.vector == 0


def test_channels_that_are_no_pieces_have_no_strips() -> None:
    facts, windows = get_target("sm_90a").facts, [Window(3, 1, 1)] * 2
    assert best_strip(12, 2, (56, 56), windows, 2, facts) is None
    assert best_strip(12, 2, (56, 56), windows, 4, facts) is not None
    assert best_strip(48, 2, (56, 56), windows, 1, facts) is None


def test_lanes_divide_channels_where_they_can() -> None:
    for vectors in (4, 12, 48, 72, 96, 120, 288, 336, 480, 576):
        assert vectors % lanes_of(vectors) == 0
    assert lanes_of(2 * 47) == 32


def test_small_images_have_small_strips() -> None:
    """At 7x7 a tile that suits large images would leave multiprocessors idle."""
    facts, windows = get_target("sm_90a").facts, [Window(3, 1, 1)] * 2
    small, large = (best_strip(96, 8, (e, e), windows, 2, facts) for e in (7, 112))
    assert small is not None and large is not None
    assert small.rows * small.run * small.vector < large.rows * large.run * large.vector


def test_what_strips_are_expected_to_take() -> None:
    """A depthwise layer of ConvNeXt of 56 us by cuDNN in the mean of four stages, and one of MobileNet."""
    text = """
    kernel wide(x: bf16[32, 28, 28, 256], w: bf16[256, 1, 7, 7]) -> bf16[32, 28, 28, 256] {
      return permute(conv(permute(x, (0, 3, 1, 2)), w, pad=3, groups=256), (0, 2, 3, 1))
    }
    kernel small(x: bf16[10, 7, 7, 960], w: bf16[960, 1, 3, 3]) -> bf16[10, 7, 7, 960] {
      return permute(conv(permute(x, (0, 3, 1, 2)), w, pad=1, groups=960), (0, 2, 3, 1))
    }
    """
    facts = get_target("sm_90a").facts
    (wide,), (small,) = (p.kernels for p in compile_text(Source("k.mcu", text)).programs)
    assert isinstance(wide, ConvKernelOp) and isinstance(small, ConvKernelOp)
    assert 10e-6 < expected(wide, facts, {}) < 50e-6
    assert expected(small, facts, {}) < 5e-6


SPANNING = """
kernel columns(x: f32[1, 4, 9, 40], w: f32[4, 1, 3, 3]) -> f32[1, 4, 1, 1] {
  return conv(x, w, stride=1000000, compute=f32, groups=4)
}
kernel dilated(x: bf16[1, 90, 5, 8], w: bf16[8, 1, 3, 3]) -> bf16[1, 90, 5, 8] {
  y = conv(permute(x, (0, 3, 1, 2)), w, pad=(1000, 1), dilation=(1000, 1), groups=8)
  return permute(y, (0, 2, 3, 1))
}
kernel apart(x: bf16[1, 150, 4, 8], w: bf16[8, 1, 3, 3]) -> bf16[1, 3, 4, 8] {
  y = conv(permute(x, (0, 3, 1, 2)), w, pad=(40, 1), stride=(64, 1), dilation=(20, 1), groups=8)
  return permute(y, (0, 2, 3, 1))
}
kernel lines(x: bf16[1, 4, 5, 160], w: bf16[4, 1, 3, 3]) -> bf16[1, 4, 5, 3] {
  return conv(x, w, stride=(1, 64), pad=(1, 0), groups=4)
}
"""


def test_outputs_that_span_many_elements_are_summed_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops over what several outputs span are unrolled, and threads hold as many numbers."""
    monkeypatch.setattr(lower, "choose", forced(Strategy.DIRECT))
    compilation = compile_text(Source("k.mcu", SPANNING))
    runs = re.findall(r"kRun = (\d+)", compilation.cu())
    assert runs == ["1", "1", "1", "4"]
    assert "kLines = true" not in compilation.cu()
    program = Program.of(compilation, tmp_path)
    for info in program.kernels:
        run(program, info, {}, 0)
