"""Pooling kernels: what joins them, their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import math

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source

KERNELS = """
kernel lines[N](x: f32[N, 3, 40]) -> f32[N, 3, 40] { return max_pool(x, 3, stride=1, pad=1) }
kernel dilated[N](x: f32[N, 2, 301]) -> f32[N, 2, 288] { return max_pool(x, 8, stride=1, pad=4, dilation=3) }
kernel long_lines[N](x: bf16[N, 1, 9000]) -> bf16[N, 1, 2250] { return avg_pool(x, 4) }
kernel strided_lines[N](x: f32[N, 1, 6001]) -> f32[N, 1, 1201] { return max_pool(x, 7, stride=5, pad=3) }
kernel halves[N](x: f32[N, 4, 12, 16]) -> f32[N, 4, 6, 8] { return max_pool(x, 2) }
kernel narrow[N](x: f16[N, 4, 12, 16]) -> f16[N, 4, 6, 8] { return avg_pool(x, 2) }
kernel odd[N](x: f32[N, 3, 11, 13]) -> f32[N, 3, 6, 7] { return max_pool(x, 3, stride=2, pad=1) }
kernel ceiling[N](x: f32[N, 2, 11, 12]) -> f32[N, 2, 4, 5] { return avg_pool(x, 4, stride=3, pad=1, ceil=on) }
kernel elements[N](x: f32[N, 2, 12, 16]) -> f32[N, 2, 6, 8] {
  return avg_pool(x, (4, 2), stride=2, pad=(1, 0), count_pad=off)
}
kernel volume[N](x: f32[N, 2, 7, 8, 12]) -> f32[N, 2, 3, 4, 6] {
  return max_pool(x, 3, stride=2, pad=1, dilation=(2, 1, 1))
}
kernel volumes[N](x: bf16[N, 2, 6, 8, 16]) -> bf16[N, 2, 3, 4, 8] { return avg_pool(x, 2) }
kernel partly[N](x: f32[N, 3, 8, 12]) -> f32[N, 3, 4, 12] { return max_pool(x, (2, 1), stride=(2, 1)) }
kernel open[N, H, W](x: f32[N, 2, H, W]) -> f32[N, 2, H, W] { return max_pool(x, 3, stride=1, pad=1) }
kernel one[N](x: f32[N, 2, 5, 6]) -> f32[N, 2, 1, 2] { return avg_pool(x, (5, 3)) }
kernel fused[N](x: bf16[N, 4, 9, 12], b: f32[4], r: f32[N, 4, 5, 6]) -> (
  y: bf16[N, 4, 5, 6], z: f32[N, 4, 5, 6]
) {
  m = max_pool(x * 2 + b[:, None, None], 3, stride=2, pad=1)
  return relu(m) - r, m * b[:, None, None]
}
kernel itself[N](x: f32[N, 4, 8, 8]) -> f32[N, 4, 8, 8] { return max_pool(x, 3, stride=1, pad=1) - x }
kernel sliced[N](x: f32[N, 4, 9, 20]) -> f32[N, 4, 4, 8] { return max_pool(x[:, :, :8, 3:19], 2) }
kernel bordered[N](x: f32[N, 2, 6, 8]) -> f32[N, 2, 4, 5] { return avg_pool(pad(x, (1, 1), (1, 1)), 2) }
kernel channels[N](x: f32[N, 7, 9, 8]) -> f32[N, 8, 4, 5] {
  return max_pool(permute(x, (0, 3, 1, 2)), 3, stride=2, pad=(1, 1))
}
kernel last[N](x: bf16[N, 12, 16]) -> bf16[N, 16, 12] {
  return avg_pool(permute(x, (0, 2, 1)), 3, stride=1, pad=1)
}
kernel numbered[N](x: s8[N, 4, 9, 8]) -> f32[N, 4, 4, 4] {
  return cast(max_pool(x, (3, 2), stride=2), f32) + 1
}
kernel wide[N](x: f32[N, 1, 5000]) -> f32[N, 1, 2] { return max_pool(x, 4500, stride=500) }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", KERNELS))
    return Program.of(compilation, tmp_path_factory.mktemp("pool"))


@pytest.mark.parametrize("processors", [0, 4], ids=["many rows a block", "few rows a block"])
def test_every_form_agrees_with_the_interpreter(program: Program, processors: int) -> None:
    program.library.on_host_sm_count(processors)
    for seed, info in enumerate(program.kernels):
        for dims in ({"N": 1, "H": 1, "W": 1}, {"N": 3, "H": 7, "W": 33}):
            run(program, info, {name: dims[name] for name in info.dims}, seed)


def test_infinities_and_nan_are_passed_on(program: Program) -> None:
    for info in program.kernels:
        run(program, info, dict.fromkeys(info.dims, 5), 7, [1.0, -math.inf, math.inf, math.nan, -2.0])
