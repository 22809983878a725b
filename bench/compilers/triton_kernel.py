"""A fused linear layer in Triton. Importing this needs triton."""

# pyright: basic, reportMissingImports=false
# The package is there on machines with a GPU only, and its decorators have no types.

import triton
import triton.language as tl


@triton.jit
def linear_kernel(
    x,
    w,
    b,
    y,
    M,
    N,
    K,
    ACTIVATION: tl.constexpr,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile of y = activation(x wT + b), all row-major; GROUP rows of tiles run together to share w."""
    tiles_m, tiles_n = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    number = tl.program_id(0)
    first_m = number // (GROUP * tiles_n) * GROUP
    rows = min(tiles_m - first_m, GROUP)
    tile_m = first_m + number % (GROUP * tiles_n) % rows
    tile_n = number % (GROUP * tiles_n) // rows

    m = tile_m * TILE_M + tl.arange(0, TILE_M)
    n = tile_n * TILE_N + tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    # Rows past the end are read from the beginning again, and not stored.
    from_x = x + (m % M)[:, None] * K + k[None, :]
    from_w = w + (n % N)[None, :] * K + k[:, None]
    sums = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, TILE_K)):
        left = K - step * TILE_K
        part_x = tl.load(from_x, mask=k[None, :] < left, other=0.0)
        part_w = tl.load(from_w, mask=k[:, None] < left, other=0.0)
        sums = tl.dot(part_x, part_w, sums)
        from_x += TILE_K
        from_w += TILE_K

    v = sums + tl.load(b + n, mask=n < N, other=0.0)[None, :].to(tl.float32)
    if ACTIVATION == "gelu":
        v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    elif ACTIVATION == "silu":
        v = v * tl.sigmoid(v)
    elif ACTIVATION == "tanh":
        v = 2.0 * tl.sigmoid(2.0 * v) - 1.0
    elif ACTIVATION == "square":
        v = v * v
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], v.to(tl.bfloat16), mask=inside)
