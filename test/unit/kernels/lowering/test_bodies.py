"""Bodies of kernels around integers that are cast from floats, run on the host."""

from __future__ import annotations

import pytest
from on_host import Program, program_of, run

KERNELS = """
kernel sums[M, N](x: f32[M, N]) -> s32[M] { return sum(cast(x * 3, s32), axis=1) }
kernel largest[M, N](x: f32[M, N]) -> s32[N] { return max(cast(x * 3, s32), axis=0) }
kernel sorted[M, N](x: f32[M, N]) -> s32[M, N] { return sort(cast(x * 3, s32), axis=1) }
kernel running[M, N](x: f32[M, N]) -> s32[M, N] { return cumsum(cast(x * 3, s32), axis=1) }
kernel seeded[M, N](x: f32[M, N], seed: f32[]) -> f32[M, N] {
  return where(random((M, N), cast(seed * 9, s32)) < 0.5, x, 0)
}
kernel stored[M, N](x: f32[M, N]) -> s32[M, N] { return cast(x * 3, s32) }
kernel counted[M, N](x: f32[M, N]) -> f32[M, N] { return cast(x * 3, s32) * 2 + x }
"""


program = program_of(KERNELS)


@pytest.mark.parametrize("size", [1, 5, 33])
def test_casts_to_integers_round_before_they_are_used(program: Program, size: int) -> None:
    for seed, info in enumerate(program.kernels):
        run(program, info, dict.fromkeys(info.dims, size), seed)
