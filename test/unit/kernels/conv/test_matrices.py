"""Convolutions by windows of one element that read x with channels before the spatial axes."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import check_on_host, convolutions, forced
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower
from mucc.kernels.conv.matrices_emission import MatricesWork
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.strategies import reasons
from mucc.kernels.conv.wide import wide_tiles
from mucc.target import get_target

FACTS = get_target("sm_90a").facts

LAYERS = """
kernel bias(x: bf16[3, 72, 5, 8], w: bf16[40, 72, 1, 1], b: f32[40]) -> bf16[3, 40, 5, 8] {
  return relu(conv(x, w) + b[:, None, None])
}
kernel skip(x: f16[2, 136, 12, 14], w: f16[136, 136, 1, 1], r: f16[2, 136, 12, 14]) -> f16[2, 136, 12, 14] {
  return conv(x, w) + r
}
kernel groups(x: bf16[2, 128, 7, 16], w: bf16[72, 64, 1, 1]) -> f32[2, 72, 7, 16] {
  return conv(x, w, groups=2)
}
kernel last(x: bf16[2, 64, 9, 8], w: bf16[64, 64, 1, 1], b: bf16[64]) -> bf16[2, 9, 8, 64] {
  return permute(conv(x, w), (0, 2, 3, 1)) + b
}
kernel padded(x: bf16[3, 64, 17, 8], w: bf16[64, 64, 1, 1], b: bf16[64]) -> bf16[3, 17, 8, 64] {
  return permute(conv(x, w), (0, 2, 3, 1)) * b
}
kernel line(x: f16[5, 8, 200], w: f16[16, 8, 1]) -> f16[5, 16, 200] {
  return conv(x, w)
}
kernel box(x: bf16[1, 16, 3, 4, 6], w: bf16[24, 16, 1, 1, 1]) -> bf16[1, 24, 3, 4, 6] {
  return conv(x, w)
}
kernel reduced(x: bf16[3, 64, 5, 8], w: bf16[32, 64, 1, 1]) -> f32[3, 5, 8] {
  return max(conv(x, w), axis=1)
}
kernel open[N](x: bf16[N, 24, 4, 6], w: bf16[8, 24, 1, 1]) -> bf16[N, 8, 4, 6] {
  return conv(x, w)
}
"""


@pytest.mark.parametrize("wanted", [(128, 64, 1, False), (256, 64, 2, False), (128, 128, 1, True)])
def test_tiles_agree_with_the_interpreter(
    wanted: tuple[int, int, int, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = next(t for t in wide_tiles(FACTS) if (t.rows, t.columns, t.shares, t.is_persistent) == wanted)
    monkeypatch.setattr(lower, "choose", forced(Strategy.MATRICES))
    monkeypatch.setattr(MatricesWork, "best", lambda _, layer, facts: tile)
    text = LAYERS if tile.shares == 1 else LAYERS[: LAYERS.index("kernel reduced")]
    compilation = compile_text(Source("k.mcu", text))
    assert {op.strategy.data for op in convolutions(compilation)} == {Strategy.MATRICES}
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(1)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 2)):
            run(program, info, {"N": 3 + seed} if info.name == "open" else {}, seed, align=align)


def _kernels(x: str, w: str, result: str, more: str = "") -> list[str]:
    """Return what the kernels of a convolution are: the strategies of convolutions, the names of others."""
    text = f"kernel k(x: bf16[{x}], w: bf16[{w}]) -> bf16[{result}] {{\n    return conv(x, w{more})\n}}"
    programs = compile_text(Source("k.mcu", text)).programs
    ops = [op for program in programs for op in program.kernels]
    return [op.strategy.data.value if isinstance(op, ConvKernelOp) else op.name for op in ops]


def test_x_is_copied_only_where_it_has_to_be() -> None:
    copied = ["cutlass.map", "warpgroups"]
    assert _kernels("32, 256, 56, 56", "64, 256, 1, 1", "32, 64, 56, 56") == ["matrices"]
    assert _kernels("32, 128, 28, 28", "512, 128, 1, 1", "32, 512, 28, 28") == ["matrices"]
    assert _kernels("32, 512, 7, 7", "2048, 512, 1, 1", "32, 2048, 7, 7") == copied  # 98 bytes
    assert _kernels("32, 256, 56, 56", "64, 256, 1, 1", "32, 64, 28, 28", ", stride=2") == copied


def test_kernels_multiply_rows_of_x_innermost() -> None:
    parameters = "x: bf16[32, 256, 56, 56], w: bf16[64, 256, 1, 1]"
    text = f"kernel k({parameters}) -> bf16[32, 64, 56, 56] {{ return conv(x, w) }}"
    made = compile_text(Source("k.mcu", text)).emit("cu")
    assert "mucc/conv_wgmma.cuh" in made and "launch_matrices(" in made and "MatrixShape<" in made
    assert "p, 1, 1, 1, 0;}" in made, "x is turned, weights are not"


def test_the_explanation_tells_what_a_copy_of_x_takes() -> None:
    parameters = "x: bf16[32, 256, 56, 56], w: bf16[64, 256, 1, 1]"
    text = f"kernel k({parameters}) -> bf16[32, 64, 56, 56] {{ return conv(x, w) }}"
    (op,) = convolutions(compile_text(Source("k.mcu", text)))
    chosen, copied = (float(line.split()[1]) for line in reasons(op, FACTS, {})[:2])
    assert copied > 1.5 * chosen


def test_the_explanation_of_a_kernel_that_reads_a_copy_counts_the_copy() -> None:
    parameters = "x: bf16[32, 256, 56, 56], w: bf16[64, 256, 3, 3]"
    text = f"kernel k({parameters}) -> bf16[32, 64, 56, 56] {{ return conv(x, w, pad=1) }}"
    (op,) = convolutions(compile_text(Source("k.mcu", text)))
    (first, *_) = reasons(op, FACTS, {})
    assert first.endswith(", x copied)    (chosen)")
    last = text.replace("256, 56, 56]", "256, 56, 56] strides(_, 1, _, _)", 1)
    (op,) = convolutions(compile_text(Source("k.mcu", last)))
    in_place = reasons(op, FACTS, {})[0]
    assert "copied" not in in_place and float(in_place.split()[1]) < 0.7 * float(first.split()[1])


def test_a_copy_has_only_what_windows_of_one_element_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "kernel k(x: bf16[2, 16, 7, 10], w: bf16[8, 16, 1, 1]) -> bf16[2, 8, 4, 4] {"
        " return conv(x, w, stride=(2, 3)) }"
    )
    check_on_host(text, Strategy.WARPGROUPS, tmp_path, monkeypatch)
    emitted = compile_text(Source("k.mcu", text)).emit("cutlass")
    assert "cutlass.workspace slot 0 : i64 : !mu.tensor<[2, 4, 4, 16], bf16>" in emitted
