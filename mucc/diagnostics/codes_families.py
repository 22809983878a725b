"""The codes of kernels with rules of their own: MU3026 to MU3028 where threads copy A, MU3050 to MU3058 of
skinny ones, MU3070 to MU3072 of sm_100a, MU3085 to MU3088 of attention.

Every explanation holds a program that triggers its code and a mended one; the tests run both.
"""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.examples import ATTENTION, PICKED, entry, kernel, scheduled

_CPASYNC: dict[str, CodeInfo] = {
    "MU3026": entry(
        "operands that the cpasync mainloop does not copy",
        "Warps of the cpasync mainloop copy 128 bytes of a row of A at a time, so A is contiguous along K. "
        "The product has one right operand, which comes by TMA. The cooperative and pingpong mainloops take "
        "16-bit operands of either order.",
        scheduled("mainloop = cpasync", kernel=kernel(x="K, M", w="K, N", body="x.T @ w")),
        scheduled("mainloop = cooperative", kernel=kernel(x="K, M", w="K, N", body="x.T @ w")),
    ),
    "MU3027": entry(
        "tile K does not suit the cpasync mainloop",
        "Rows of A are copied 128 bytes at a time, to where TMA would have put them: 64 elements "
        "of 16 bits, 128 of 8 bits. Tile K is a multiple of that.",
        scheduled("mainloop = cpasync", "tile = 128x128x32"),
        scheduled("mainloop = cpasync", "tile = 128x128x64"),
    ),
    "MU3028": entry(
        "exchange of an operand whose rows are picked",
        "The cpasync mainloop picks rows of its first operand by number as it copies them. With exchanged "
        "operands that would be the second one. Leave `exchange` off, or take another mainloop: then the "
        "picked rows are copied before the product.",
        scheduled("mainloop = cpasync", "exchange = on", kernel=PICKED),
        scheduled("mainloop = cpasync", kernel=PICKED),
    ),
}

_SKINNY: dict[str, CodeInfo] = {
    "MU3050": entry(
        "short side of a skinny tile",
        "A skinny tile is a few rows of the small operand by many of the large one. Tensor cores take the "
        "few by eights: 8, 16 or 32. With `compute=f32` they are 1, 2, 4, 8 or 16. An operand with more "
        "rows takes several tiles, and the large operand is read for each.",
        scheduled("mainloop = skinny", "tile = 12x32x64"),
        scheduled("mainloop = skinny", "tile = 16x32x64"),
    ),
    "MU3051": entry(
        "long side of a skinny tile",
        "The lanes of a warp lie over 16 rows of the large operand where K is its contiguous axis, and over "
        "128 bytes of its rows where it is not. The long side of a tile is a multiple of that.",
        scheduled("mainloop = skinny", "tile = 8x40x64"),
        scheduled("mainloop = skinny", "tile = 8x32x64"),
    ),
    "MU3052": entry(
        "tile K of a skinny tile",
        "A lane copies 16 bytes of the large operand at a time, so that a warp covers 64 bytes along K where "
        "K is its contiguous axis, and 32 bytes where it is not. Tile K, the step of a warp, is a multiple.",
        scheduled("mainloop = skinny", "tile = 8x32x40"),
        scheduled("mainloop = skinny", "tile = 8x32x64"),
    ),
    "MU3053": entry(
        "skinny tile takes too many registers",
        "Each warp holds accumulators for the whole tile, shared out over its 32 lanes; without tensor cores "
        "four lanes hold the same ones. A thread has 64 at most: take a smaller tile.",
        scheduled("mainloop = skinny", "tile = 32x128x32"),
        scheduled("mainloop = skinny", "tile = 32x64x32"),
    ),
    "MU3054": entry(
        "skinny kernels take no cluster",
        "A cluster of a skinny kernel is made of the blocks that divide K for a tile, and `split_k(n)` says "
        "how many those are; without it they are chosen at each call.",
        scheduled("mainloop = skinny", "cluster = 2x1"),
        scheduled("mainloop = skinny", "cluster = 1x1", "scheduler = split_k(2)"),
    ),
    "MU3055": entry(
        "scheduler of skinny kernels",
        "A skinny kernel has a block for each tile, or, on targets with clusters, 2, 4 or 8 that divide K. "
        "`persistent` leaves their number to each call, `split_k(n)` sets it.",
        scheduled("mainloop = skinny", "scheduler = split_k(3)"),
        scheduled("mainloop = skinny", "scheduler = split_k(4)"),
    ),
    "MU3056": entry(
        "stages of skinny kernels",
        "Each warp has a ring of 2 to 8 steps in shared memory: one is multiplied, the others are copied.",
        scheduled("mainloop = skinny", "stages = 12"),
        scheduled("mainloop = skinny", "stages = 3"),
    ),
    "MU3057": entry(
        "skinny kernels do not compute in this format",
        "Skinny kernels multiply bf16, f16, tf32 and what has 8 bits on tensor cores, and f32 without.",
        scheduled("mainloop = skinny", kernel=kernel("f32", body="matmul(x, w.T, compute=tf32x3)")),
        scheduled("mainloop = skinny", kernel=kernel("f32", body="matmul(x, w.T, compute=f32)")),
    ),
    "MU3059": CodeInfo(
        "skinny kernels have one right operand",
        "A gated unit such as `silu(x @ wg.T) * (x @ wu.T)` multiplies with two right operands in one "
        "kernel, which skinny kernels do not. With `mainloop = skinny` it becomes two kernels.",
    ),
    "MU3058": entry(
        "skinny tile does not fit into shared memory",
        "Each of the eight warps of a block has its own stages, of both operands. Shorten the tile, or leave "
        "the number of stages to the compiler.",
        scheduled("mainloop = skinny", "tile = 8x64x64", "stages = 8"),
        scheduled("mainloop = skinny", "tile = 8x64x64", "stages = auto"),
    ),
}

_BLACKWELL: dict[str, CodeInfo] = {
    "MU3070": entry(
        "tile does not fit into tensor memory",
        "The accumulators of sm_100a lie in tensor memory, a column for each column of the tile. While the "
        "epilogue reads one tile the next is computed: two must fit. Take a smaller tile N.",
        scheduled("tile = 128x512x32", target="sm_100a"),
        scheduled("tile = 128x256x32", target="sm_100a"),
    ),
    "MU3071": entry(
        "no pairs of blocks",
        "In the `two_sm` mainloop two thread blocks, neighbours along M in their cluster, work on one matrix "
        "instruction. The cluster's extent along M must be even; `one_sm` does without pairs.",
        scheduled("mainloop = two_sm", "cluster = 1x2", target="sm_100a"),
        scheduled("mainloop = two_sm", "cluster = 2x2", target="sm_100a"),
    ),
    "MU3072": entry(
        "epilogue's pieces do not fit the tile",
        "The epilogue works on a tile some columns at a time, and stores at least 16 bytes along each row. "
        "Its pieces must divide the tile. Take a tile N that is a multiple of 64.",
        scheduled("mainloop = one_sm", "tile = 64x80x64", target="sm_100a"),
        scheduled("mainloop = one_sm", "tile = 64x64x64", target="sm_100a"),
    ),
}

_ATTENTION: dict[str, CodeInfo] = {
    "MU3085": entry(
        "setting that attention does not have",
        "Kernels of attention have `tile`, `mainloop`, `stages`, `scheduler` and `reproducible`. Their "
        "blocks share no loads and start with the launch, and what follows attention is computed on rows. "
        "Where a program has products too, a schedule of the whole program is theirs alone.",
        scheduled("cluster = 2x1", kernel=ATTENTION),
        scheduled("tile = 128x128x64", kernel=ATTENTION),
    ),
    "MU3086": entry(
        "tile that attention does not have",
        "`tile = MxNxK` of attention is queries of a block, keys of a step, and the elements of a row as "
        "tensor cores take them, a multiple of 16. On wgmma each warpgroup has 64 queries, of at most three; "
        "N is a multiple of 16. Scores, weights and results lie in registers, two stages of keys and values "
        "in shared memory.",
        scheduled("tile = 96x128x64", kernel=ATTENTION),
        scheduled("tile = 128x128x64", kernel=ATTENTION),
    ),
    "MU3087": entry(
        "mainloop that attention does not have",
        "On sm_90a warpgroups take turns at the tensor cores (`pingpong`) or do not (`cooperative`); "
        "`multistage` multiplies with mma.sync on all targets, f32 too. Up to 16 queries have `skinny`, "
        "whose warps divide the keys.",
        scheduled("mainloop = skinny", kernel=ATTENTION),
        scheduled("mainloop = cooperative", kernel=ATTENTION),
    ),
    "MU3088": entry(
        "scheduler that attention does not have",
        "Blocks take tiles in one order. `split_k(n)` divides the keys of up to 64 queries in n parts, 64 at "
        "most, and `persistent` leaves them whole; without either the launch decides by the number of "
        "processors.",
        scheduled("scheduler = stream_k(splits=2)", kernel=ATTENTION),
        scheduled("scheduler = split_k(2)", kernel=ATTENTION),
    ),
}

CODES: dict[str, CodeInfo] = {**_CPASYNC, **_SKINNY, **_BLACKWELL, **_ATTENTION}
"""Title and explanation of every code."""
