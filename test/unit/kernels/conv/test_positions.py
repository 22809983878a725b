"""Convolutions by windows as large as x: gradients of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convolutions import convolutions, forced
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.mu.ops.contraction import Compute
from mucc.kernels.conv import lower, positions_emission
from mucc.kernels.conv.layer import layer_of_kernel
from mucc.kernels.conv.op import Strategy
from mucc.kernels.conv.positions import best_positions, position_tiles, refused
from mucc.target import get_target

FACTS = get_target("sm_90a").facts

GRADIENTS = """
kernel usual(x: bf16[3, 9, 10, 72], g: bf16[3, 9, 10, 40]) -> bf16[40, 72, 3, 3] {
  return permute(conv(permute(x, (3, 0, 1, 2)), permute(g, (3, 0, 1, 2)), pad=1), (1, 0, 2, 3))
}
kernel strided(x: f16[2, 17, 16, 8], g: f16[2, 9, 8, 72], s: f32) -> f32[8, 72, 3, 3] {
  y = conv(pad(permute(x, (3, 0, 1, 2)), (1, 1), (1, 0)), permute(g, (3, 0, 1, 2)), dilation=2)
  return y * s
}
kernel first(x: bf16[3, 24, 9, 10], g: bf16[3, 16, 9, 10]) -> f32[24, 16, 3, 3] {
  return conv(permute(x, (1, 0, 2, 3)), permute(g, (1, 0, 2, 3)), pad=1)
}
kernel parted(x: f32[2, 7, 8, 16], g: f32[2, 4, 4, 24]) -> f32[24, 16, 3, 3] {
  y = conv(pad(permute(x, (3, 0, 1, 2)), (1, 1), (1, 0)), permute(g, (3, 0, 1, 2)), dilation=2)
  return permute(y, (1, 0, 2, 3))
}
kernel line(x: f16[5, 64, 16], g: f16[5, 60, 8]) -> f16[3, 16, 8] {
  return permute(conv(permute(x, (2, 0, 1)), permute(g, (2, 0, 1)), stride=2), (2, 0, 1))
}
"""


@pytest.mark.parametrize("wanted", [(64, 64, 8), (256, 64, 2)])
def test_tiles_agree_with_the_interpreter(
    wanted: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = next(t for t in position_tiles(FACTS) if (t.rows, t.columns, t.shares) == wanted)
    monkeypatch.setattr(lower, "choose", forced(Strategy.POSITIONS))
    monkeypatch.setattr(positions_emission, "best_positions", lambda *_: tile)
    compilation = compile_text(Source("k.mcu", GRADIENTS))
    assert {op.strategy.data for op in convolutions(compilation)} == {Strategy.POSITIONS}
    program = Program.of(compilation, tmp_path)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 2)):
            run(program, info, {}, seed, align=align)
        if info.name == "parted":  # to more bits than tf32 has
            run(program, info, {}, 2, floats=(1.0037, -0.7503, 3.1416, 0.0117), within=5e-4, align=16)


def _layer(channels: int, dtype: str, outputs: int = 64) -> Any:
    text = (
        f"kernel k(x: {dtype}[32, 56, 56, {channels}], g: {dtype}[32, 56, 56, {outputs}]) -> "
        f"{dtype}[{channels}, {outputs}, 3, 3] {{\n"
        "    return conv(permute(x, (3, 0, 1, 2)), permute(g, (3, 0, 1, 2)), pad=1)\n}"
    )
    compilation = compile_text(Source("k.mcu", text))
    (op,) = convolutions(compilation)
    return op, [inner.name for p in compilation.programs for inner in p.kernels]


def test_gradients_of_16_bits_are_one_kernel_whose_tile_divides_the_sums() -> None:
    op, kernels = _layer(64, "bf16")
    assert _layer(64, "f32")[0].compute.data is Compute.BF16
    assert op.strategy.data is Strategy.POSITIONS and kernels == ["cutlass.conv"]
    tile = best_positions(layer_of_kernel(op, {}), FACTS)
    assert tile.shares == 8 and tile.columns == 64
    wide = best_positions(layer_of_kernel(_layer(256, "bf16", 256)[0], {}), FACTS)
    assert (wide.rows, wide.columns, wide.shares) == (128, 256, 4)  # no cluster of 6


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_other_gradients_are_divided_among_groups_and_added_up(dtype: str) -> None:
    op, kernels = _layer(36, dtype)
    assert op.geometry.groups == 32
    assert kernels[kernels.index("cutlass.conv") + 1] == "cutlass.reduce"
    assert refused(layer_of_kernel(op, {})) is not None


def test_shares_give_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    text = (
        "kernel k(x: f32[4, 6, 5, 4], g: f32[4, 6, 5, 3]) -> f32[4, 3, 3, 3] {\n"
        "    return conv(permute(x, (3, 0, 1, 2)), permute(g, (3, 0, 1, 2)), pad=1)\n}"
    )
    compilation = compile_text(Source("k.mcu", text))
    (op,) = convolutions(compilation)
    assert op.geometry.groups == 4
    x, g = rng.normal(size=(4, 6, 5, 4)), rng.normal(size=(4, 6, 5, 3))
    (found,) = compilation.interpret("k", [x, g])
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = [
        [np.einsum("nhwc,nhwo->co", padded[:, r : r + 6, s : s + 5], g) for s in range(3)] for r in range(3)
    ]
    np.testing.assert_allclose(found, np.moveaxis(np.array(wanted), (0, 1), (2, 3)), 1e-6, 1e-6)
