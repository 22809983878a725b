"""`mucc docs --card` and `--grammar`: the language on one page, made from what the compiler knows."""

from __future__ import annotations

import textwrap

from mucc.frontend.grammar import grammar

__all__ = ["card", "grammar"]

_CARD = """\
# mucc reference card

mucc compiles `.mcu` tensor programs into fused kernels for NVIDIA GPUs: sm_90a (Hopper, the default), and
with fewer kernels sm_80, sm_89, sm_120a and sm_100a (`--target`; `mucc targets` lists what each has).

```mcu
// y = gelu(x wT + b)
kernel linear_gelu[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N]
    where K % 8 == 0, N % 8 == 0
{
    return gelu(x @ w.T + b)
}

schedule linear_gelu for sm_90a {
    tile      = 128x256x64
    cluster   = 2x1
    mainloop  = cooperative
    stages    = auto
    scheduler = persistent(raster=along_n, swizzle=2)
}
```

## Kernels
* `kernel NAME[DIMS](PARAMS) -> RESULT { name = expr ... return expr }`. One `return`, last. Names are bound
  once; no loops, no strings, no `;`. Comments: `//`.
* Dims are run-time sizes: `[M, N, K=4096]` binds one (a bound dim is also a number in expressions; an
  unbound one is not). Every unbound dim must appear in a parameter's type. `where K % 8 == 0, M >= 1`
  states promises that callers must keep (checked at each call; affine: `+ - *`, `/ %` by a number).
* Types: `bf16[M, K]`, `f16[8, K]`, `f32[]` (tensor with one number), `f32` (scalar passed by value; only
  f32). Also e4m3, e5m2, s8, u8, s32: their stores saturate; s4, u4 (`mucc.pack_s4`): parameters only. bool
  exists inside expressions only. Parameter layouts: `row_major` (default), `col_major` (last two axes
  swapped), `strides(_, 1)` (elements, `_` = run-time). Results are row-major. `w: bf16[N, K] sparse` (2:4
  along K, packed by `mucc.sparsify(w)`) can be used in `x @ w.T` only; sm_90a.
* `kernel each NAME`: callers give lists, an item for each problem.
* Several results: `-> (y: bf16[M, N], amax: f32[])` and `return h, amax(h)`. A returned value must have
  exactly the declared shape; its dtype is converted.
* `stage h = expr` stores h between two device kernels and names the stage. Without it the compiler cuts by
  itself where one contraction feeds another. `h: f32[M, N] = expr` checks the shape and converts.

## Expressions
* Loosest first: `or`, `and`, `not`, `< <= > >= == !=` (no chains), `+ -`, `* / @`, unary `-`, postfix `.T`,
  `[...]`.
* `a @ b`: `[.., M, K] @ [.., K, N]`, leading axes broadcast. A weight `w: [N, K]` is used as `x @ w.T`;
  `.T` (last two axes) is free. bf16 and f16 multiply in their own format, f32 in tf32 (`matmul(a, b,
  compute=tf32x3)` or `f32` for more precision); sums are f32. e4m3 with e4m3 or e5m2 gives f32 (`matmul(a,
  b, acc=fast)`: faster sums), s8 or u8 with s8 or u8 gives s32: keep K contiguous, `x @ w.T`; scale as in
  `(x @ w.T) * sx[:, None] * sw`. bf16 and f16 also multiply with s4 and 8-bit weights; scales per group of K:
  `s: bf16[N, K/128]`, `x @ dequantize(w, s).T`. Blocks of e4m3: `matmul(x, w.T, scale_a=sx, scale_b=sw)` with
  `sx: f32[M, K/128]`, `sw: f32[N/128, K/128]`.
* `grouped_matmul(x, w.T, offsets)`: x `[T, K]`, w `[E, N, K]`, offsets `s32[E]` (ends of the groups of rows,
  the last is T), `scale=` `f32[E]` and `bias=` `[E, N]` if need be; like block scales only on sm_90a.
  `gather(x, rows)` is `x[rows]`; `scatter(y, rows, T)` the way back, other rows zero.
* Broadcasting is NumPy's, over dim names: extents agree if they are the same name, the same number, or one
  is 1. For x `[M, N]`: `x + b` with b `[N]` adds per column; per row write `x + r[:, None]` with r `[M]`.
  Indexing knows `:` and `None` only.
* Arithmetic inside a stage is f32; dtypes say how values are stored. bf16 with f16 or f32 gives f32,
  8-bit and s32 values act as f32; numbers and scalars never widen. `cast(x, bf16)` rounds explicitly.
* Conditions: `where(x > 0 and x < 1, a, b)`.

## Functions (keywords show defaults; names in a row share parameters)
{functions}
`min`, `max` of two values are elementwise; of one value they reduce. Reductions drop their axes and give
f32; `axis` is an int or `(0, 1)`, negative counts from the end, left out means all. A shape: `(M, 4)`. conv
and pools take x `[N, C, ...]`, w `[O, C/groups, ...]`; norms have no weights. What has no kernel yet is
error MU2010.

## Schedules (optional; the default is good)
`schedule KERNEL for sm_90a { ... }` for all contractions of a kernel, `schedule KERNEL.STAGE for ...` for
one. Tiles and clusters below are those of sm_90a's first three mainloops.
* `tile = MxNxK`: M % 64 = 0 (cooperative: M % 128 = 0); N % 16 = 0 (f32: N % 32 = 0); K % 16 = 0
  (8-bit: 32, 64 or 128; f32: K % 8 = 0, or 32 where an operand is not contiguous along K); no extent above
  256; M x N at most 49152 (cooperative: 256x192, 128x256) or 24576 (others: 192x128, 64x256), half of it for
  8-bit floats unless acc=fast. Good: 128x256x64, 128x128x64,
  64x128x64; for f32 a K of 32, for 8-bit of 128.
* `cluster = MxN`: blocks that share loads; powers of two, at most 8 in all: 1x1, 2x1, 1x2, 2x2.
  With sparse weights K = 128 or 256 (f32: 64).
* `mainloop = cooperative` (two warpgroups a tile, M >= 128), `pingpong` (a tile each), `warpspecialized`
  (a tile per block, no swizzle), `cpasync` (`gather(x, rows) @ w`), `skinny` (M or N up to 32:
  `tile = 8x32x64`, 32x8x64 for few columns), `multistage` (any rows, f32 and tf32x3; not 8-bit:
  `tile = 128x128x32`, no cluster). sm_80, sm_89, sm_120a have the last two, sm_100a `one_sm`, `two_sm` too.
* `stages = auto` or a number >= 2: (M + N) x K x element bytes for each, 227 KB in all with the epilogue.
* `scheduler = persistent(raster=along_m|along_n|heuristic, swizzle=1|2|4|8)`, or `stream_k(splits=n)`,
  `split_k(n)` (for few tiles and a long K; the first only with cooperative, the second also with multistage
  and skinny).
* `exchange = on|off`: compute the transpose, so that a small M becomes the tile's N: for M <= 64,
  `tile = 64x16x128` counts 64 of N and 16 of M. `pdl = on|off`: start before the last kernel ends.
  `epilogue = MxN|auto`: the piece of a tile that the epilogue works on (sm_90a).
* Alignment: TMA loads need 16 bytes, so the contiguous extent must be a multiple of 16 (8-bit), 8 (16-bit) or
  4 (f32): promise it in `where` or bind the dim. Bound to anything else, matrices are copied first
  (or `multistage`). f32 operands are best contiguous along K: `x @ w.T`.

## More programs
```mcu
// two contractions: h is stored, each stage has its own schedule
kernel mlp[M, D, H](x: bf16[M, D], w1: bf16[H, D], b1: bf16[H], w2: bf16[D, H]) -> bf16[M, D] {
    stage h = silu(x @ w1.T + b1)
    return h @ w2.T
}

schedule mlp.h for sm_90a {
    tile     = 128x128x64
    mainloop = pingpong
}
```

```mcu
// row scales, a run-time scalar, two results
kernel scaled[M, N, K](x: f16[M, K], w: f16[K, N], r: f32[M], a: f32) -> (y: f16[M, N], s: f32[M]) {
    h = a * (r[:, None] * (x @ w))
    y = where(h > 0, h, 0.1 * h)
    return y, sum(y, axis=1)
}
```

## Command line
`mucc f.mcu -o f.so` compile; `mucc check f.mcu` errors only, fast; `mucc fmt f.mcu`; `mucc explain MU1024`;
`mucc f.mcu --explain-schedule --dims M=16` (typical sizes); `mucc tune f.mcu --dims M=16,N=4096,K=4096`
measures schedules, and later compilations take the best;
`mucc f.mcu --emit=ast|mu|stages|cutlass|schedule|cu`; `mucc run f.mcu --dims M=4096,N=4096,K=4096`. In
Python: `m = mucc.load("f.so"); y = m.linear_gelu(x, w, b)` with torch tensors.
"""


def card() -> str:
    """The reference card: short enough for a model's context, enough to write correct programs from."""
    from mucc.frontend.functions import FUNCTIONS

    alike: dict[str, list[str]] = {}
    for function in (f for overloads in FUNCTIONS.values() for f in overloads):
        alike.setdefault(", ".join(p.brief for p in function.params), []).append(function.name)
    return _CARD.replace("{functions}", _list(alike))


def function_table() -> str:
    """Every function with its meaning, as a Markdown table: the one in docs/language.md."""
    from mucc.frontend.functions import FUNCTIONS

    lines = ["| function | meaning |", "|---|---|"]
    for function in (f for overloads in FUNCTIONS.values() for f in overloads):
        cells = (f"`{function.signature}`", function.doc.rstrip("."))
        lines.append(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    return "\n".join(lines) + "\n"


def _list(alike: dict[str, list[str]]) -> str:
    """Signatures one after the other: parameters, each with the functions that take them."""
    # One character joins what must not be broken, so that lines break between names and signatures only.
    parts = ((" ".join(names), params.replace(" ", "\0")) for params, names in alike.items())
    text = "; ".join(f"{names}({params})" for names, params in parts)
    return "\n".join(textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)).replace(
        "\0", " "
    )
