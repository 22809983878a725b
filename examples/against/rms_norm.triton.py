"""Root mean square norm of rows with a gain in Triton: a row is read once into registers."""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({}, num_warps=w) for w in (1, 2, 4, 8, 16)], key=["N"])
@triton.jit
def _rows(x, gain, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + row * N + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / N + 1e-5)
    gains = tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * N + columns, (values * scale * gains).to(tl.bfloat16), mask=inside)


def rms_norm_gain(x, gain):
    y = torch.empty_like(x)
    _rows[(x.shape[0],)](x, gain, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
