"""The codes of the passes and targets: MU2 fusion and stages, MU3 schedules, MU4 targets.

Every explanation of MU3 holds a program that triggers its code and a mended one; the tests run both.
"""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus
from mucc.diagnostics.examples import (
    A_BY_COLUMNS,
    B_BY_ROWS,
    BYTES,
    F32,
    GATED,
    MIXED,
    ODD,
    QKV,
    ROW_SUMS,
    SCALED,
    SPARSE,
    entry,
    kernel,
    scheduled,
)

_TILES: dict[str, CodeInfo] = {
    "MU3001": entry(
        "tile M does not fit the mainloop",
        "A wgmma instruction computes 64 rows, so tile M is a multiple of 64. The cooperative mainloop gives "
        "each of two warp groups half of a tile: there tile M is a multiple of 128. Change the tile, or take "
        "another mainloop: `pingpong` and `warpspecialized` work from 64 rows on. A tile of sparse rows has "
        "64, 128 or 256 of them.",
        scheduled("tile = 64x128x64", "mainloop = cooperative"),
        scheduled("tile = 64x128x64", "mainloop = pingpong"),
    ),
    "MU3002": entry(
        "tile N does not fit the operands",
        "wgmma works on multiples of 8 columns, but a pipeline stage of B must be made of whole swizzle "
        "patterns: tile N is a multiple of 16 for 16-bit operands, and of 32 for tf32. Extents that divide "
        "into 256, 128, 64 or 32 columns use the largest instructions.",
        scheduled("tile = 128x120x64"),
        scheduled("tile = 128x128x64"),
    ),
    "MU3003": entry(
        "tile K does not fit the operands",
        "A wgmma instruction takes 32 bytes along K: 16 elements of bf16 or f16, 8 of tf32, 32 of 8 "
        "bits. Tile K is a multiple of that; 128 bytes suit TMA best.",
        scheduled("tile = 128x128x40"),
        scheduled("tile = 128x128x64"),
    ),
    "MU3030": entry(
        "tile K does not suit sums in f32",
        "Tensor cores add up products of 8-bit floats with fewer bits than f32 has, so their sums are added "
        "up in f32 after every 4 instructions, 128 elements of K. Tile K divides that: 32, 64 or 128. "
        "`acc=fast` leaves the sums to the tensor cores.",
        scheduled("tile = 128x128x96", kernel=kernel("e4m3")),
        scheduled("tile = 128x128x64", kernel=kernel("e4m3")),
    ),
    "MU3005": entry(
        "tile does not fit into shared memory",
        "A pipeline needs two stages of A and B beside the epilogue's buffers, in the 227 KB that a thread "
        "block has. The notes say what a stage and the epilogue take. Shorten tile K first; then the tile.",
        scheduled("tile = 256x128x256"),
        scheduled("tile = 256x128x64"),
    ),
    "MU3006": entry(
        "tile takes too many registers",
        "The accumulators of a tile are shared by its consumer threads: 256 in the cooperative mainloop, 128 "
        "in the others, in one 32-bit register for each element, two where a kernel has two right operands. "
        "Beyond 192 registers they spill to memory. tf32 operands that are not contiguous along K take "
        "registers for A as well. Take a smaller tile, or `mainloop = cooperative`.",
        scheduled("tile = 128x256x64", "mainloop = pingpong"),
        scheduled("tile = 128x128x64", "mainloop = pingpong"),
    ),
    "MU3007": entry(
        "tile is larger than one copy",
        "The tensor memory accelerator moves boxes of at most 256 elements along each axis.",
        scheduled("tile = 512x32x64"),
        scheduled("tile = 256x32x64"),
    ),
    "MU3014": entry(
        "tile K does not fit the operands' layout",
        "wgmma reads 32-bit operands only where they are contiguous along K. Where A is not, it passes "
        "through registers in blocks of 32 elements along K; where B is not either, it is transposed in "
        "shared memory, and tile K must be 32. Change the tile, or store the operands along K.",
        scheduled("tile = 128x128x16", kernel=A_BY_COLUMNS),
        scheduled("tile = 128x128x32", kernel=A_BY_COLUMNS),
    ),
    "MU3015": entry(
        "row reduction needs a larger buffer",
        "A reduction over M adds up one partial row from each warp in the buffer that stages the output. "
        "The epilogue works on 32 columns at a time if 32 divides tile N, else on fewer, and then a 16-bit "
        "output leaves too small a buffer for a wide tile. Take a tile N that is a multiple of 32.",
        scheduled("tile = 128x240x64", kernel=ROW_SUMS),
        scheduled("tile = 128x256x64", kernel=ROW_SUMS),
    ),
    "MU3018": entry(
        "row reduction of an odd tile",
        "CUTLASS 4.2 reduces over M by an exchange between threads that divides the columns of a tile by 64. "
        "Of a tile N above 64 that is no multiple of 64 it adds up other columns than it should, and says "
        "nothing. Take a tile N of 64, 128, 192 or 256, or one below 64.",
        scheduled("tile = 128x96x64", kernel=ROW_SUMS),
        scheduled("tile = 128x128x64", kernel=ROW_SUMS),
    ),
    "MU3019": entry(
        "result of 8 bits in narrow pieces",
        "The epilogue stages D in shared memory in pieces, 32 columns at a time if 32 divides tile N. Where "
        "columns are contiguous in the kernel's result, as with `exchange = on`, TMA stores no pieces of 16 "
        "columns of 8-bit elements. Take a tile N that is a multiple of 32.",
        scheduled("tile = 128x16x64", "exchange = on", kernel=BYTES),
        scheduled("tile = 128x32x64", "exchange = on", kernel=BYTES),
    ),
    "MU3016": entry(
        "tf32 operands lie the wrong way round",
        "wgmma reads 32-bit operands only where they are contiguous along K, and only the first may be "
        "rearranged on its way through registers. A product whose first operand is contiguous along K and "
        "whose second is not has to be computed with the operands exchanged; one whose second is and whose "
        "first is not must not be. Leave `exchange` out, or turn it the other way.",
        scheduled("mainloop = cooperative", "exchange = off", kernel=B_BY_ROWS),
        scheduled("mainloop = cooperative", "exchange = on", kernel=B_BY_ROWS),
    ),
    "MU3060": entry(
        "two right operands cannot be exchanged",
        "Two products of one left operand that meet in one epilogue are one kernel, in which both right "
        "operands pass through the tile's columns. It cannot compute the transposed product, in which they "
        "would be left operands. Leave `exchange` out, or keep the products apart with `stage`.",
        scheduled("mainloop = cooperative", "exchange = on", kernel=GATED),
        scheduled("exchange = off", kernel=GATED),
    ),
    "MU3061": entry(
        "ranges and groups of columns are not stored so",
        "Ranges of a product's columns that are results of their own are stored by one kernel, each to its "
        "matrix: by TMA, from tiles whose rows are the matrices' rows, or a few rows at a time. Groups of "
        "columns that are normalised in the epilogue are whole in a tile, and K is not divided. The "
        "multistage mainloop does neither, and no kernel does with exchanged operands. Leave the setting "
        "out.",
        scheduled("mainloop = cooperative", "exchange = on", kernel=QKV),
        scheduled("mainloop = cooperative", "exchange = off", kernel=QKV),
    ),
    "MU3032": CodeInfo(
        "tile does not hold whole blocks",
        "Scales of blocks hold for 128 elements along K, which is tile K. Tile M and N are whole blocks: "
        "where a scale holds for 128 columns, tile N is 128.",
    ),
    "MU3034": CodeInfo(
        "mainloop takes no block scales",
        "Block scales are applied to parts of a sum. The cooperative and pingpong mainloops add up such "
        "parts.",
    ),
    "MU3031": CodeInfo(
        "8-bit operands are not contiguous along K",
        "wgmma transposes operands of 16 bits only. The compiler copies operands that lie otherwise before "
        "the kernel; declare a weight as `w: e4m3[N, K]` and write `x @ w.T` to save that.",
    ),
    "MU3130": entry(
        "mainloop that does not convert weights",
        "A product of weights of 4 or 8 bits with 16-bit activations has its weights converted in registers. "
        "The mainloops of sm_90a that load by TMA do that, and `skinny`. For others convert them first: "
        "`stage h = dequantize(w, s)`.",
        scheduled("mainloop = multistage", kernel=MIXED),
        scheduled("mainloop = cooperative", kernel=MIXED),
    ),
    "MU3131": entry(
        "converted operand is the second",
        "wgmma takes only its first operand from registers, where weights are converted. Weights on the "
        "right of `@` therefore need the transposed product, which the compiler chooses by itself.",
        scheduled("exchange = off", kernel=MIXED),
        scheduled("exchange = on", kernel=MIXED),
    ),
    "MU3132": entry(
        "step along K that does not suit converted weights",
        "Weights are converted in steps of 64 or 128 elements along K. A step is made of whole groups that "
        "share a scale, or a group of several steps.",
        scheduled("tile = 128x128x32 exchange = on", kernel=MIXED),
        scheduled("tile = 128x128x64 exchange = on", kernel=MIXED),
    ),
    "MU3134": entry(
        "converted operand is the small one",
        "A skinny kernel converts the operand that it reads once, the large one, which the longer side of "
        "its tile stands for.",
        scheduled("tile = 64x8x64", "mainloop = skinny", kernel=MIXED),
        scheduled("tile = 8x64x64", "mainloop = skinny", kernel=MIXED),
    ),
    "MU3133": CodeInfo(
        "weights are converted by a kernel of their own",
        "A note: the kernel of the product does not convert these weights itself, so a map kernel does at "
        "every call, which writes them to memory and takes longer than reading 16-bit weights would. On "
        "sm_90a a product converts one row-major matrix `w: [N, K]` in `x @ dequantize(w, s).T` or "
        "`x @ w.T`, with rows of whole 16 bytes and groups of 16, 32 or a multiple of 64 "
        "elements along K.\n\n"
        "`stage h = dequantize(w, s)` asks for a kernel of its own, without a note.",
    ),
    "MU3140": entry(
        "sparse operand that is not the first",
        "wgmma takes only its first operand sparse. A product whose second operand is sparse, as in "
        "`x @ w.T`, is computed with the operands exchanged, one whose first operand is sparse must not be. "
        "Leave `exchange` out, or turn it the other way.",
        scheduled("exchange = off", kernel=SPARSE),
        scheduled("exchange = on", kernel=SPARSE),
    ),
    "MU3141": entry(
        "tile K does not hold whole blocks of metadata",
        "Which values of a sparse matrix are stored is said by metadata in blocks of 64 rows and 128 columns "
        "(64 of f32), zeros counted. CUTLASS wants them in another order for tiles of fewer columns (of f32, "
        "for other tiles); the packer has the one that tiles of whole blocks share.",
        scheduled("tile = 128x128x64", kernel=SPARSE),
        scheduled("tile = 128x128x128", kernel=SPARSE),
    ),
    "MU3142": entry(
        "no sparse operands here",
        "Sparse operands are multiplied by the cooperative, pingpong and warpspecialized mainloops of "
        "sm_90a. Other mainloops and targets take dense matrices: leave `sparse` out of the type.",
        scheduled("mainloop = multistage", kernel=SPARSE),
        scheduled("mainloop = pingpong", kernel=SPARSE),
    ),
    "MU3090": CodeInfo(
        "mainloop that a grouped contraction does not have",
        "Where the groups of `grouped_matmul` end is known on the device only. Blocks of the cooperative and "
        "the pingpong mainloop stay and find tile after tile; the others are launched for one tile each.",
    ),
    "MU3091": CodeInfo(
        "scheduler that a grouped contraction does not have",
        "To divide K, `stream_k` and `split_k` have to know before the launch how many tiles there are. Of a "
        "grouped contraction that is known on the device only: use `scheduler = persistent`.",
    ),
    "MU3092": CodeInfo(
        "exchange of the operands of a grouped contraction",
        "The rows of a group begin anywhere in the result, and the last tile of a group is stored row by "
        "row. With exchanged operands rows would be columns, which copies cannot cut there.",
    ),
    "MU3020": entry(
        "mainloop does not compute in this format",
        "wgmma multiplies bf16, f16, tf32 and formats of 8 bits, and tf32x3 where the product is a plain "
        "one. `compute=f32` needs a mainloop that multiplies in registers: `multistage`, which has no "
        "formats of 8 bits.",
        scheduled("mainloop = cooperative", kernel=F32),
        scheduled("mainloop = multistage", kernel=F32),
    ),
    "MU3021": entry(
        "tile does not suit the multistage mainloop",
        "M and N of its tiles are 32, 64, 128 or 256, which divide into two to eight warps of up to 64x64 "
        "results. K has 64 or 128 bytes of each row, or 8 elements where f32 is multiplied without tensor "
        "cores. An operand that is contiguous along M or N needs 128 bytes of it in a tile.",
        scheduled("mainloop = multistage", "tile = 96x128x64"),
        scheduled("mainloop = multistage", "tile = 64x128x64"),
    ),
}

_PIPELINE: dict[str, CodeInfo] = {
    "MU3004": entry(
        "pipeline does not fit into shared memory",
        "Each stage of the pipeline holds one tile of A and one of B; the notes say what it takes. Ask for "
        "fewer stages, leave the count to the compiler with `stages = auto`, or take a smaller tile.",
        scheduled("tile = 128x256x64", "stages = 8"),
        scheduled("tile = 128x256x64", "stages = auto"),
    ),
    "MU3024": entry(
        "unaligned operands have two stages",
        "The multistage mainloop copies rows with cp.async, which takes 4 bytes at least. 16-bit operands "
        "whose rows start at odd elements pass through registers instead, with one stage under way while "
        "the other is consumed.",
        scheduled("mainloop = multistage", "stages = 3", kernel=ODD),
        scheduled("mainloop = multistage", "stages = 2", kernel=ODD),
    ),
    "MU3017": entry(
        "too few pipeline stages",
        "One stage is filled while another is consumed: a pipeline has at least two. In the multistage "
        "mainloop tf32 and tf32x3 have at least three: with two, CUTLASS would round operands to f16.",
        scheduled("stages = 1"),
        scheduled("stages = 2"),
    ),
}

_LAUNCH: dict[str, CodeInfo] = {
    "MU3073": entry(
        "kernel cannot start early",
        "With `pdl = on` a kernel starts while the one before it on the stream still runs, and waits for its "
        "end before it reads. Kernels that load by TMA do so, but for an epilogue that reads a number from a "
        "tensor without dims: CUTLASS fetches it at once. Pass the number by value, or leave `pdl` out. "
        "Where a `split_k` or `stream_k` scheduler has several blocks share a tile, counters in memory are "
        "cleared before the kernel, so that it cannot start early either.",
        scheduled("mainloop = cooperative", "pdl = on", kernel=SCALED.replace("s: f32", "s: f32[]")),
        scheduled("mainloop = cooperative", "pdl = on", kernel=SCALED),
    ),
    "MU3075": entry(
        "sums have no fixed order",
        "With `reproducible = on` a kernel gives the same bits in every run, and a row of a result the same "
        "bits whatever number of rows there are. What adds in another order from run to run or for other "
        "extents cannot be chosen then: `stream_k`, which divides K by the number of tiles, and what atomics "
        "add, which are sums over the results of a contraction in its epilogue and gradients of the queries "
        "of attention. `split_k(n)` adds its parts in order. A stage (`stage y = a @ b`) gives such a sum a "
        "kernel of its own, whose order is fixed.",
        scheduled("mainloop = cooperative", "scheduler = stream_k(splits=2)", "reproducible = on"),
        scheduled("mainloop = cooperative", "scheduler = split_k(2)", "reproducible = on"),
    ),
    "MU3074": entry(
        "epilogue tile is not possible",
        "The epilogue of an sm_90a kernel works on pieces of a tile: as many rows as its warp groups hold "
        "side by side (128 in cooperative kernels, else 64), and columns that divide the tile and are a "
        "multiple of 16. Wider pieces take more shared memory, narrower ones more steps.",
        scheduled("tile = 128x128x64", "mainloop = cooperative", "epilogue = 64x32"),
        scheduled("tile = 128x128x64", "mainloop = cooperative", "epilogue = 128x64"),
    ),
}

_GRID: dict[str, CodeInfo] = {
    "MU3008": entry(
        "cluster is not possible",
        "A cluster has 1, 2, 4 or 8 thread blocks, and 1, 2, 4 or 8 along each axis. Larger ones do not "
        "launch on every card.",
        scheduled("cluster = 4x4"),
        scheduled("cluster = 2x4"),
    ),
    "MU3025": entry(
        "too many copies for a thread",
        "A thread of the multistage mainloop keeps a bit for each copy of a stage, 64 for each operand. Rows "
        "that are not aligned are copied in small pieces: then take a tile with a smaller K, or one that "
        "more warps share.",
        scheduled("mainloop = multistage", "tile = 64x256x64", kernel=ODD),
        scheduled("mainloop = multistage", "tile = 64x256x32", kernel=ODD),
    ),
    "MU3022": entry(
        "mainloop has no clusters",
        "Thread blocks of a cluster share what TMA loads. The multistage mainloop does without "
        "it: its cluster is 1x1.",
        scheduled("mainloop = multistage", "cluster = 2x1"),
        scheduled("mainloop = multistage", "cluster = 1x1"),
    ),
    "MU3023": entry(
        "stream-K of the multistage mainloop in parts",
        "With `stream_k` the blocks of the multistage mainloop share the tiles of the last waves evenly, "
        "wherever that cuts K. Parts of one size are what `split_k(n)` makes.",
        scheduled("mainloop = multistage", "scheduler = stream_k(splits=2)"),
        scheduled("mainloop = multistage", "scheduler = split_k(2)"),
    ),
    "MU3009": entry(
        "cluster cannot share the tile",
        "The blocks of a cluster along M need the same tile of B; each loads an equal part of it, in "
        "groups of 8 columns, and hands it to the others. Tile N must be a multiple of 8 for each of them. "
        "Take a smaller cluster along M, or a wider tile.",
        scheduled("tile = 128x16x64", "cluster = 4x1"),
        scheduled("tile = 128x16x64", "cluster = 2x1"),
    ),
    "MU3010": entry(
        "mainloop does not have this scheduler",
        "`stream_k` and `split_k` divide K among thread blocks and add up their tiles. The mainloops "
        "`pingpong` and `warpspecialized` do not; take `cooperative`.",
        scheduled("tile = 128x128x64", "mainloop = pingpong", "scheduler = stream_k(splits=1)"),
        scheduled("tile = 128x128x64", "mainloop = cooperative", "scheduler = stream_k(splits=1)"),
    ),
    "MU3011": entry(
        "target does not have this mainloop",
        "The mainloops `cooperative`, `pingpong` and `warpspecialized` load their operands by TMA and "
        "multiply with wgmma, which only sm_90a has; `one_sm` and `two_sm` are those of sm_100a. All targets "
        "have `multistage` and `skinny`, and `mucc targets` lists the mainloops of each.",
        scheduled("mainloop = cooperative", target="sm_80"),
        scheduled("mainloop = multistage", target="sm_80"),
    ),
    "MU3012": entry(
        "swizzle is not possible",
        "The persistent scheduler walks blocks of 1, 2, 4 or 8 tiles across. The warpspecialized mainloop is "
        "not persistent: it launches one thread block per tile and has no swizzle.",
        scheduled("scheduler = persistent(swizzle=3)"),
        scheduled("scheduler = persistent(swizzle=4)"),
    ),
    "MU3013": entry(
        "K cannot be divided into so many parts",
        "The parts of K run at the same time on different multiprocessors: there are at most as many as "
        "multiprocessors, 132.",
        scheduled("tile = 128x128x64", "mainloop = cooperative", "scheduler = split_k(1000)"),
        scheduled("tile = 128x128x64", "mainloop = cooperative", "scheduler = split_k(8)"),
    ),
}

_STAGES: dict[str, CodeInfo] = {
    "MU2001": entry(
        "schedule for a stage or a kernel that has none",
        "A schedule names a stage of a kernel: one that the program pins with `stage`, a result, or `s0`, "
        "`s1` … for the others. Only stages that hold a product or attention have one; the help lists them. "
        "A schedule of a whole kernel needs one of them, too, unless it sets `reproducible` alone. "
        "`--emit=stages` shows which operation runs in which stage.",
        scheduled("tile = 128x128x64").replace("schedule f for", "schedule f.s0 for"),
        scheduled("tile = 128x128x64").replace("schedule f for", "schedule f.out for"),
    ),
}

_KERNELS: dict[str, CodeInfo] = {
    "MU2011": CodeInfo(
        "chain of operations is too long",
        "mucc walks from a value to those that it is computed of, and takes a few hundred steps between "
        "values that are stored. Programs that people write are far from that; one that a script wrote may "
        "not be. Store a value on the way with `stage h = ...`, or write two kernels.\n",
    ),
    "MU2012": entry(
        "signature is too large",
        "A call passes at most 64 parameters and results, of at most 8 axes each, and a kernel has at most "
        "32 dims, those with a value among them. Values within a kernel may have more axes.",
        "kernel f[M](x: f32[M, 2, 2, 2, 2, 2, 2, 2, 2]) -> f32[M] {\n"
        "    return sum(x, axis=(1, 2, 3, 4, 5, 6, 7, 8))\n}",
        "kernel f[M](x: f32[M, 256]) -> f32[M] {\n    return sum(x, axis=1)\n}",
    ),
    "MU2010": entry(
        "operation without a kernel",
        "The program is right, and the interpreter computes it, but mucc cannot compile this operation yet. "
        "`mucc check --language` takes it. The message says what can be written instead.",
        "kernel f[M](x: f32[M, 1]) -> f32[M] {\n    return var(x, axis=1)\n}",
        "kernel f[M](x: f32[M, 1]) -> f32[M] {\n    return var(x, axis=1, correction=0)\n}",
    ),
}

_SHAPES: dict[str, CodeInfo] = {
    "MU3101": entry(
        "extent is not a multiple of what copies need",
        "TMA moves rows in multiples of 16 bytes: the contiguous extent of every matrix that a "
        "product reads or writes is a multiple of 8 elements of bf16 and f16, and of 4 of f32. A dim that is "
        "known only at run time becomes a promise, which every call is checked against; a number that "
        "breaks the rule is refused here. The multistage mainloop has no such rule, and on sm_90a such "
        "matrices are copied with padded rows; only what is scattered by rows is not.",
        scheduled("mainloop = one_sm", kernel=ODD, target="sm_100a"),
        scheduled("mainloop = multistage", kernel=ODD, target="sm_100a"),
    ),
}

_TARGETS: dict[str, CodeInfo] = {
    "MU4001": CodeInfo(
        "unknown target",
        "mucc compiles for the GPUs that `mucc targets` lists. The `a` in `sm_90a` belongs to the name: it "
        "stands for the matrix instructions that only this architecture has.\n\n"
        "Wrong:\n\n```sh\nmucc --target sm_90 linear.mcu\n```\n\n"
        "Mended:\n\n```sh\nmucc --target sm_90a linear.mcu\n```\n",
        status=ExitStatus.USAGE,
    ),
}

CODES: dict[str, CodeInfo] = {
    **_STAGES,
    **_KERNELS,
    **_TILES,
    **_PIPELINE,
    **_GRID,
    **_LAUNCH,
    **_SHAPES,
    **_TARGETS,
}
"""Title and explanation of each code."""
