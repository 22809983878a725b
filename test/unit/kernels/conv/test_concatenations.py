"""Results of convolutions that are concatenated: stored into their parts by the convolution's own kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import check_on_host, convolutions

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv.op import Strategy
from mucc.library.signature import Manifest
from mucc.measure.run import run_on_cpu

LAST = """
kernel up(x: bf16[2, 5, 7, 16], w: bf16[16, 2, 2, 8], b: bf16[8], kept: bf16[2, 10, 14, 8])
    -> bf16[2, 10, 14, 16] {
  v = conv_transpose(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), stride=2) + b[:, None, None]
  return concat(kept, permute(v, (0, 2, 3, 1)), axis=3)
}
kernel three(x: f16[3, 9, 7, 8], w: f16[8, 3, 3, 8], g: f32[8], k: f16[3, 9, 7, 8], l: f16[3, 9, 7, 8])
    -> f16[3, 9, 7, 24] {
  v = permute(conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), pad=1), (0, 2, 3, 1))
  return concat(relu(k * g), relu(v * g), sigmoid(l), axis=3)
}
kernel moved(x: bf16[2, 5, 7, 16], w: bf16[16, 2, 2, 8], b: bf16[8], k: bf16[2, 10, 14, 8])
    -> bf16[2, 10, 14, 16] {
  v = conv_transpose(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), stride=2) + b[:, None, None]
  return permute(concat(v, permute(k, (0, 3, 1, 2)), axis=1), (0, 2, 3, 1))
}
kernel rows[N](x: bf16[N, 6, 5, 8], w: bf16[12, 3, 1, 8], k: bf16[N, 4, 5, 12]) -> bf16[N, 8, 5, 12] {
  v = permute(conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2))), (0, 2, 3, 1))
  return concat(v, k, axis=1)
}
"""

FIRST = """
kernel first(x: f32[3, 5, 9, 12], w: f32[6, 5, 2, 3], b: f32[6], k: f32[3, 6, 8, 10]) -> f32[3, 12, 8, 10] {
  return concat(k * 2, conv(x, w) + b[:, None, None], axis=1)
}
kernel spread(x: f32[2, 8, 5, 7], w: f32[8, 4, 3, 3], k: f32[2, 4, 11, 15]) -> f32[2, 8, 11, 15] {
  return concat(conv_transpose(x, w, stride=2), k, axis=1)
}
"""

APART = {
    "unequal": (
        "kernel f(x: f32[2, 4, 9, 8], w: f32[8, 4, 2, 1], k: f32[2, 3, 8, 8]) -> f32[2, 11, 8, 8] "
        "{ return concat(k, conv(x, w), axis=1) }"
    ),
    "read by another kernel": (
        "kernel f(x: f32[2, 4, 9, 8], w: f32[8, 4, 2, 1], k: f32[2, 8, 8, 8]) -> "
        "(y: f32[2, 16, 8, 8], z: f32[2, 8]) "
        "{ h = conv(x, w)\n return concat(k, h, axis=1), mean(sigmoid(h), axis=(2, 3)) }"
    ),
    "of two convolutions": (
        "kernel f(x: f32[2, 4, 9, 8], w: f32[8, 4, 2, 1], v: f32[8, 4, 2, 1]) -> f32[2, 16, 8, 8] "
        "{ return concat(conv(x, w), conv(x, v), axis=1) }"
    ),
    "named by the user": (
        "kernel f(x: f32[2, 4, 9, 8], w: f32[8, 4, 2, 1], k: f32[2, 8, 8, 8]) -> f32[2, 16, 8, 8] "
        "{ stage h = conv(x, w)\n return concat(k, h, axis=1) }"
    ),
}
"""Concatenations that keep a kernel, by the reason."""


def kernels(compilation: Compilation) -> dict[str, list[str]]:
    return {
        program.sym_name.data: [k.stage.data for k in program.kernels if "copy" not in k.stage.data]
        for program in compilation.programs
    }


@pytest.mark.parametrize("strategy", [Strategy.WARPGROUPS, Strategy.TILES, Strategy.DIRECT])
def test_results_with_channels_last_are_stored_into_their_part(
    strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check_on_host(LAST, strategy, tmp_path, monkeypatch)
    assert len(found) == 4
    made = compile_text(Source("k.mcu", LAST))
    assert kernels(made) == {name: ["out"] for name in ("up", "three", "moved", "rows")}
    assert all(op.geometry.channels_last for op in convolutions(made))


@pytest.mark.parametrize("strategy", [Strategy.TILES, Strategy.PATCHES, Strategy.DIRECT])
def test_results_with_channels_first_are_stored_into_their_part(
    strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(check_on_host(FIRST, strategy, tmp_path, monkeypatch)) == 2
    assert kernels(compile_text(Source("k.mcu", FIRST))) == {"first": ["out"], "spread": ["out"]}


@pytest.mark.parametrize("reason", APART)
def test_other_concatenations_keep_a_kernel(reason: str) -> None:
    made = compile_text(Source("k.mcu", APART[reason]))
    assert all(store.part is None for op in convolutions(made) for store in op.stores)


def test_a_result_in_its_part_is_judged() -> None:
    made = compile_text(Source("k.mcu", LAST))
    for info in Manifest.parse(made.manifest).kernels:
        report = run_on_cpu(made, info, dict.fromkeys(info.dims, 2), 1, lambda _: None)
        assert all(verdict.good and verdict.beyond == 0 for verdict in report.verdicts)
