"""gelu(x wᵀ + b) in Triton: blocks of the result, walked in groups of rows so that L2 is reused."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": m, "BN": n, "BK": 64}, num_warps=warps, num_stages=stages)
    for m, n, warps in ((128, 256, 8), (128, 128, 4), (128, 128, 8), (64, 128, 4), (64, 64, 4))
    for stages in (3, 4)
]
GROUP = tl.constexpr(8)


@triton.autotune(CONFIGS, key=["M", "N", "K"])
@triton.jit
def _tiles(x, w, b, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    number = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = number // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    m = first + number % (GROUP * columns) % height
    n = number % (GROUP * columns) // height
    at_m = m * BM + tl.arange(0, BM)
    at_n = n * BN + tl.arange(0, BN)
    at_k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        inside = at_k + k < K
        left = tl.load(
            x + at_m[:, None] * K + at_k + k, mask=(at_m[:, None] < M) & inside[None, :], other=0.0
        )
        right = tl.load(
            w + at_n[None, :] * K + (at_k + k)[:, None], mask=(at_n[None, :] < N) & inside[:, None], other=0.0
        )
        total = tl.dot(left, right, total)
    total += tl.load(b + at_n, mask=at_n < N, other=0.0).to(tl.float32)[None, :]
    result = 0.5 * total * (1 + tl.erf(total * 0.7071067811865476))
    inside = (at_m[:, None] < M) & (at_n[None, :] < N)
    tl.store(y + at_m[:, None] * N + at_n, result.to(tl.bfloat16), mask=inside)


def linear_gelu(x, w, b):
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    _tiles[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](x, w, b, y, M, N, K)
    return y
