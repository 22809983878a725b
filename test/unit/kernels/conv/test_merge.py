"""Convolutions whose groups of few channels are merged."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import merge
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.merge import merged_groups
from mucc.kernels.conv.op import ConvKernelOp
from mucc.target import get_target

FACTS = get_target("sm_90a").facts
NHWC = "strides(_, 1, _, _)"
TEXT = f"""
kernel grouped(x: bf16[2, 128, 5, 6] {NHWC}, w: bf16[48, 16, 3, 3]) -> bf16[2, 48, 5, 6] {{
  return conv(x, w, pad=1, groups=8)
}}
kernel spread(x: f32[1, 64, 3, 4], w: f32[64, 3, 2, 3]) -> f32[1, 24, 6, 9] {{
  return conv_transpose(x, w, stride=2, groups=8)
}}
kernel line(x: f32[2, 12, 20], w: f32[12, 4, 3]) -> f32[2, 12, 18] {{ return conv(x, w, groups=3) }}
"""


@pytest.mark.parametrize(("gain", "groups"), [(1e9, [2, 2, 3]), (0.0, [8, 8, 3])])
def test_merged_groups_have_the_same_results(
    gain: float, groups: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "GAIN", gain)
    compilation = compile_text(Source("k.mcu", TEXT))
    kernels = [op for p in compilation.programs for op in p.kernels if isinstance(op, ConvKernelOp)]
    assert [op.groups.value.data for op in kernels] == groups
    program = Program.of(compilation, tmp_path)
    for info in program.kernels:
        run(program, info, {}, 0, align=16)


def test_groups_are_merged_to_whole_rows_where_that_is_faster() -> None:
    resnext = Layer(32 * 784, 8, 8, 32, 9, "bf16", 2, True, 26_000_000, places=(28, 28), channels_known=True)
    assert merged_groups(resnext, FACTS) == 8
    assert merged_groups(resnext._replace(channels=1, outputs=1), FACTS) == 1
    assert merged_groups(resnext._replace(groups=4), FACTS) == 1
    assert merged_groups(resnext._replace(channels=64, outputs=64), FACTS) == 1
    assert merged_groups(resnext, get_target("sm_80").facts) == 1
