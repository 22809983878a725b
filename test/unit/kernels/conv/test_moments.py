"""Moments of tiles for the norms behind a convolution: which norms take them, and their C++ on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from convolutions import convolutions, forced
from on_host import Program, run

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower, moments
from mucc.kernels.conv.op import Strategy
from mucc.library.signature import Manifest
from mucc.measure.run import run_on_cpu

PROGRAM = """
kernel batch(x: f32[5, 8, 9, 12], w: f32[12, 8, 3, 3], b: f32[12], g: f32[12]) -> f32[5, 12, 7, 10] {
  return relu(batch_norm(conv(x, w) + b[:, None, None]) * g[:, None, None])
}
kernel instance(x: f32[3, 8, 13, 16], w: f32[20, 8, 3, 3]) -> f32[3, 20, 13, 16] {
  return instance_norm(relu(conv(x, w, pad=1))) / 2
}
kernel group[N](x: f32[N, 8, 5, 30, 8], w: f32[12, 8, 3, 3, 3], g: f32[12]) -> f32[N, 12, 3, 28, 6] {
  return group_norm(sigmoid(conv(x, w)), 4) * g[:, None, None, None]
}
kernel spread(x: f32[2, 8, 5, 8], w: f32[8, 6, 3, 3]) -> (y: f32[2, 6, 11, 17], z: f32[2, 6, 11, 17]) {
  h = conv_transpose(x, w, stride=2)
  return h, layer_norm(h, axis=(1, 2, 3))
}
kernel last(x: f16[3, 9, 7, 8], w: f16[24, 3, 3, 8]) -> f16[3, 9, 7, 24] {
  h = permute(conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), pad=1), (0, 2, 3, 1))
  d = h - mean(h, axis=(0, 1, 2))
  return d * rsqrt(mean(d * d, axis=(0, 1, 2)) + 0.001)
}
"""


def compiled(text: str, monkeypatch: pytest.MonkeyPatch) -> Compilation:
    monkeypatch.setattr(moments, "MOMENT_BYTES", dict.fromkeys(Strategy, -1.0))
    monkeypatch.setattr(moments, "LEAST", 0)
    return compile_text(Source("k.mcu", text))


# `tiles` computes the calls that the first two cannot map.
@pytest.mark.parametrize("strategy", [Strategy.WARPGROUPS, Strategy.PLANES, Strategy.PATCHES])
def test_kernels_agree_with_the_interpreter(
    strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lower, moments):
        monkeypatch.setattr(module, "choose", forced(strategy))
    compilation = compiled(PROGRAM, monkeypatch)
    found = convolutions(compilation)
    assert all(op.moments is not None for op in found)
    assert strategy in {op.strategy.data for op in found}
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(1)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 4)):
            run(program, info, dict.fromkeys(info.dims, 2 + seed), seed, align=align, within=2e-3)


READERS = """
kernel pooled[N](x: f32[N, 8, 9, 12], w: f32[12, 8, 3, 3], g: f32[12], s: f32[12]) -> f32[N, 12, 3, 5] {
  h = group_norm(conv(x, w), 4) * g[:, None, None] + s[:, None, None]
  return clamp(max_pool(h, 2), 0, 1)
}
kernel averaged(x: f32[3, 8, 5, 30, 8], w: f32[12, 8, 3, 3, 3], g: f32[12]) -> f32[3] {
  return mean(group_norm(conv(x, w), 6) * g[:, None, None, None], axis=(1, 2, 3, 4))
}
kernel added(x: f32[3, 8, 9, 12], w: f32[12, 8, 3, 3], g: f32[12]) -> f32[3, 1, 7, 10] {
  h = conv(x, w)
  return logsumexp(h + tanh(group_norm(h, 4) * g[:, None, None]), axis=1, keepdims=on)
}
kernel means(x: bf16[4, 8, 9, 12], w: bf16[12, 8, 3, 3], g: f32[12, 1, 1]) -> f32[4, 12, 7, 10] {
  h = batch_norm(conv(x, w)) * g
  return h - mean(h, axis=(2, 3), keepdims=on)
}
"""


def test_kernels_that_read_a_norm_compute_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lower, moments):
        monkeypatch.setattr(module, "choose", forced(Strategy.PATCHES))
    compilation = compiled(READERS, monkeypatch)
    kernels = {p.sym_name.data: [op.stage.data for op in p.kernels] for p in compilation.programs}
    assert kernels == {
        "pooled": ["s0", "s1_moments", "s1_channels", "out"],
        "averaged": ["s0", "s1_moments", "s1_channels", "out"],
        "added": ["s0", "s1_moments", "s1", "out"],  # goes over channels twice
        "means": ["s0", "s1_moments", "out"],
    }
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(1)
    for info in program.kernels:
        run(program, info, dict.fromkeys(info.dims, 2), 0, align=16, within=1e-2)


JUDGED = """
kernel f(x: f32[3, 4, 5, 8], w: f32[8, 4, 2, 2], g: f32[8]) -> f32[3, 8, 2, 3] {
  return max_pool(group_norm(conv(x, w), 4) * g[:, None, None], 2)
}
"""


def test_a_norm_of_shared_moments_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = compiled(JUDGED, monkeypatch)
    (info,) = Manifest.parse(compilation.manifest).kernels
    report = run_on_cpu(compilation, info, {}, 1, lambda _: None)
    assert "partial_moments" in compilation.emit("stages")
    assert all(verdict.good and verdict.beyond == 0 for verdict in report.verdicts)


def test_a_result_that_is_equal_everywhere_is_its_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "kernel f(x: bf16[1, 4, 5, 8], w: bf16[8, 4, 2, 2], b: f32) -> f32[] "
        "{ return min(cast(layer_norm(max(conv(x, w), b), axis=(1, 2, 3)), bf16)) }"
    )
    compilation = compiled(text, monkeypatch)
    assert "partial_moments" in compilation.emit("stages")
    # 0.6574 is no number of bf16: its distance from what is stored is a third of sqrt(eps).
    (found,) = compilation.interpret_lowered("f", [np.zeros((1, 4, 5, 8)), np.zeros((8, 4, 2, 2)), 0.6574])
    assert abs(found) < 1e-6


def test_a_norm_that_is_stored_without_an_axis_keeps_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "kernel f(x: f32[3, 4, 2, 8], w: f32[8, 4, 2, 2]) -> (y: f32[3, 8, 1, 7], z: f32[3, 8, 7]) "
        "{ v = layer_norm(conv(x, w), axis=(2, 3))\n return v, v[:, :, 0] * 2 }"
    )
    compilation = compiled(text, monkeypatch)
    assert "partial_moments" not in compilation.emit("stages")
    assert compilation.emit("cu")


@pytest.mark.parametrize("shape", ["(384,)", "(3, 128)"])
def test_a_norm_of_fewer_axes_keeps_its_kernel(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        f"kernel f(x: f32[3, 4, 17, 2], w: f32[8, 4, 2, 2]) -> f32[{shape.strip('(),')}] "
        f"{{ return layer_norm(reshape(conv(x, w), {shape}), axis=0) }}"
    )
    assert "partial_moments" not in compiled(text, monkeypatch).emit("stages")
