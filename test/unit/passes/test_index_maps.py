"""Operations that move elements: which kernels they need, and their C++, run on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import kernel_names
from on_host import Program, program_of, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source

PICKED = """
kernel picked[M, T](x: f32[T, 10], rows: s32[M]) -> f32[M, 4] {
  r = gather(x, rows)
  placed = pad(r, 1, 1)[:, :4]
  return gather(x[:, 3:7], rows) + r[:, :4] + placed
}
"""

KERNELS = """
kernel rotary[B, S, H=3, D=16](x: bf16[B, S, H, D], c: f32[S, 8], s: f32[S, 8]) -> bf16[B, S, H, D] {
  x1 = x[..., :8]
  x2 = x[..., 8:]
  cc = c[:, None]
  ss = s[:, None]
  return concat(x1 * cc - x2 * ss, x2 * cc + x1 * ss, axis=3)
}
kernel turned_halves[S, H, D=16](x: f16[S, H, D], c: f32[S, D], s: f32[S, D])
    -> (y: f16[S, H, D], r: f32[S, 1]) {
  t = concat(-x[..., D/2:], x[..., :D/2], axis=-1)
  return x * c[:, None] + t * s[:, None], 2 * s[:, 3:4]
}
kernel thirds[M, N](x: f32[M, N], y: f32[N, M], z: s8[M, N], b: f32[N], w: f32[M, 4])
    -> (a: f32[3*M, N], d: f32[N, 3, M], c: bf16[M, 6]) {
  c = concat(w[:, :2], w[:, 1:3], 2 * w[:, 2:], axis=1)
  d = permute(concat(x[:, None], y.T[:, None], relu(x)[:, None], axis=1), (2, 1, 0))
  return concat(x, y.T, cast(z, f32), axis=0) * b, d, c
}
kernel pairs[S, D](x: f32[S, 2*D], c: f32[S, D], s: f32[S, D]) -> f32[S, D, 2] {
  a = x[:, ::2]
  b = x[:, 1::2]
  return concat((a * c - b * s)[..., None], (b * c + a * s)[..., None], axis=-1)
}
kernel turned_pairs[S, H, D=16](x: bf16[S, H, D], c: f32[S, D/2], s: f32[S, D/2])
    -> (y: bf16[S, H, D], z: f32[H*S, D]) {
  a = x[..., ::2]
  b = x[..., 1::2]
  cc = c[:, None]
  ss = s[:, None]
  pairs = concat((a * cc - b * ss)[..., None], (b * cc + a * ss)[..., None], axis=-1)
  return reshape(pairs, (S, H, D)), reshape(x * x, (H*S, D))
}
kernel quarters[M, N](x: f32[M, 4*N], y: f32[M, N]) -> f32[M, 4*N] {
  return x + concat(y, -y, x[:, :N], flip(y, axis=1), axis=1)
}
kernel of_index[M](x: f32[M, 4], y: f32[M, 4]) -> (a: f32[M, 8], b: bf16[M, 8]) {
  return concat(x, y, axis=1) * iota((M, 8), axis=1), concat(y, x, axis=1)
}
kernel interleaved[M](x: f32[M, 24], y: bf16[M, 12]) -> f32[M, 12] {
  return x[:, 1::2] - y * x[:, ::2]
}
kernel triangles[M, N](x: f32[M, N], y: s32[M, N]) -> (a: f32[M, N], b: s32[M, N]) {
  return tril(flip(x, axis=0), diagonal=1), triu(flip(y), diagonal=-2)
}
kernel rolled[M](x: f16[M, 12]) -> f16[M, 12] {
  return roll(x, 5, axis=1) - roll(roll(x, -3, axis=1), 3, axis=1)
}
kernel padded[N](x: f32[5, N], y: f32[N, 7])
    -> (a: f32[9, N], b: f32[N, 17], c: f32[N, 10], d: f32[N, 11]) {
  a = pad(x, (1, 0), (3, 0), value=-1)
  b = pad(y, 4, 6, mode=reflect)
  c = pad(y, 1, 2, mode=replicate)
  d = pad(2 * y, 3, 1, mode=circular)
  return a, b, c, d
}
kernel three[M](x: s8[M, 3], y: s8[M, 8], z: s8[M, 5]) -> s8[M, 16] { return concat(x, y, z, axis=1) }
kernel rows[N](x: f32[3, N], y: f32[2, N], b: f32[N]) -> f32[5, N] { return concat(x, y, axis=0) * b }
kernel numbers[M, N](x: f32[M, N]) -> (i: s32[M, N], y: f32[M, N]) {
  r = iota((M, N), axis=0)
  return r + 2 * iota((M, N), axis=1), x * r
}
kernel columns[M](x: f32[16, M] col_major) -> f32[16, M] {
  return flip(concat(x, 2 * x, axis=0)[5:21])
}
kernel sums[M](x: f32[M, 20], y: f32[M, 4]) -> f32[M] {
  return sum(concat(x, y, axis=1)[:, 1:-1:3], axis=1)
}
kernel running[M](x: f32[M, 9]) -> f32[M, 18] { return cumsum(concat(x, flip(x, axis=1), axis=1), axis=1) }
kernel of_sums[M, N](x: f32[8, M, N]) -> f32[2, M] {
  return sum(x, axis=2)[2::3]
}
kernel halves[M](x: f32[M, 6]) -> f32[M, 3] {
  t = x * x
  return t[:, :3] - t[:, 3:]
}
kernel both[M](x: f32[4, M, 6]) -> f32[6, M, 9] { return pad(x, (1, 0, 2), (1, 0, 1), mode=replicate) }
kernel parts[B, S](qkv: bf16[B, S, 3, 2, 8]) -> (q: bf16[B, S, 2, 8], v: f32[B, 2, S]) {
  return qkv[:, :, 0] * qkv[:, :, 1], permute(qkv[:, :, 2, :, -1], (0, 2, 1))
}
kernel drop[M, N](x: bf16[M, N], seed: s32[]) -> (a: bf16[M, N], b: f32[N, M]) {
  return dropout(x, 0.5, seed), random((M, N), -7, stream=3).T
}
kernel kept[M, N](x: f32[M, N], seed: s32[]) -> f32[M] { return sum(dropout(x, 0.5, seed).T, axis=0) }
kernel crossed[M](x: f32[8, M]) -> f32[M, 4] {
  return x.T[:, 2:6] + x[:4].T
}
"""


OPEN = """
kernel open_ends[M, N](x: f32[M, N], y: f32[M, 2*N])
    -> (a: f32[M, N-2], b: f32[N], c: f32[M, 3*N], d: f32[M, N+3], e: f32[M, 2*N])
{
  c = concat(y[:, N:], x[:, ::-1], y[:, 1:N], y[:, -1:], axis=1)
  return x[:, 1:-1] * y[:, 2:N], x[-1] + y[0, :N], c, pad(x, 2, 1, mode=reflect), concat(y[:, N:], x, axis=1)
}
kernel halves[S, H, D](x: bf16[S, H, D], c: f32[S, D/2], s: f32[S, D/2]) -> bf16[S, H, D] {
  a = x[..., :D/2]
  b = x[..., D/2:]
  return concat(a * c[:, None] - b * s[:, None], b * c[:, None] + a * s[:, None], axis=-1)
}
kernel product[M, N](x: bf16[M, 64], w: bf16[2*N, 64], b: f32[2*N]) -> (y: f32[M, N], z: f32[M, N])
    where N % 8 == 0
{
  h = x @ w.T + b
  return h[:, :N], relu(h[:, N:])
}
kernel known_part[M, K](x: f32[M, 64], z: f32[M, 64], y: f32[K]) -> f32[M, 8] where K <= 64 {
  return concat(x[:, :K], z[:, K:], axis=1)[:, 1:9] + y[0]
}
"""

PRODUCTS = """
kernel half[M, N](x: bf16[M, 128], w: bf16[N, 64]) -> bf16[M, N] where N % 8 == 0 { return x[:, 64:] @ w.T }
kernel odd[M, N](x: bf16[M, 72], w: bf16[N, 40]) -> bf16[M, N] where N % 8 == 0 { return x[:, 5:45] @ w.T }
kernel turned[M](x: bf16[M, 64], w: f32[64, 96]) -> f32[M, 32] { return cast(x, f32) @ w[::-1, 64:] }
kernel beside[M](x: bf16[M, 64], w: bf16[48, 64], r: bf16[M, 128], b: f32[300]) -> bf16[M, 48] {
  return x @ w.T + r[:, 80:] * b[3:51] + r[:, 1:49]
}
kernel split[M](x: bf16[M, 64], w: bf16[96, 64], b: bf16[96])
    -> (q: bf16[M, 32], k: f32[M, 32], v: bf16[M, 32]) {
  qkv = x @ w.T + b
  return qkv[:, :32], 2 * qkv[:, 32:64], qkv[:, 64:]
}
kernel uneven[M](x: bf16[M, 64], w: bf16[224, 64], b: bf16[224], r: bf16[M, 224])
    -> (q: bf16[M, 96], k: bf16[M, 40], v: bf16[M, 64]) {
  t = relu(x @ w.T + b) + r
  return t[:, :96] * 2, abs(t[:, 96:136]), t[:, 160:]
}
kernel scaled[B, T, N](x: bf16[B, T, 32], w: bf16[2*N, 32], s: f32, c: f32[B, T])
    -> (k: bf16[B, T, N], v: bf16[B, T, N]) where N % 8 == 0 {
  t = x @ w.T
  return t[..., :N] * s, t[..., N:] * c[..., None]
}
kernel then_read[M](x: f32[M, 64], w: f32[96, 64]) -> (q: f32[M, 32], k: f32[M], y: f32[M, M])
    where M % 8 == 0 {
  t = x @ w.T
  k = t[:, 32:64]
  return t[:, :32], amax(k, axis=1), k @ t[:, 64:].T
}
kernel heads[T](x: bf16[T, 32], w: bf16[144, 32], b: bf16[144], u: bf16[144, 32])
    -> (q: bf16[T, 4, 16], kv: bf16[T, 2, 2, 16], y: bf16[T, 3, 3, 16]) {
  t = x @ w.T + b
  kv = 2 * t[:, 80:]
  return reshape(t[:, :64], (T, 4, 16)), reshape(kv, (T, 2, 2, 16)), reshape(x @ u.T, (T, 3, 3, 16))
}
kernel last[M](x: bf16[3, M, 64], w: bf16[64, 24]) -> bf16[M, 24] { return x[-1] @ w }
kernel every(x: bf16[200, 64], w: bf16[24, 64]) -> bf16[100, 24] { return x[1::2] @ w.T }
"""


program = program_of(KERNELS)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 33])
def test_kernels_agree_with_the_interpreter(program: Program, size: int) -> None:
    for seed, info in enumerate(program.kernels):
        dims = {
            name: size + i if value is None else value for i, (name, value) in enumerate(info.dims.items())
        }
        run(program, info, dims, seed)


@pytest.mark.parametrize("size", [8, 24])
def test_products_read_parts_in_place(size: int, tmp_path: Path) -> None:
    products = Program.of_text(PRODUCTS, tmp_path)
    for seed, info in enumerate(products.kernels):
        run(products, info, {n: size if v is None else v for n, v in info.dims.items()}, seed)


def test_a_product_of_parts_and_of_the_whole_is_computed_once() -> None:
    text = """kernel heads[T](x: bf16[T, 32], w: bf16[144, 32], b: bf16[144])
    -> (q: bf16[T, 4, 16], kv: bf16[T, 2, 2, 16], y: bf16[T, 3, 3, 16]) {
  t = x @ w.T + b
  kv = 2 * t[:, 80:]
  return reshape(t[:, :64], (T, 4, 16)), reshape(kv, (T, 2, 2, 16)), reshape(x @ w.T, (T, 3, 3, 16))
}"""
    compilation = compile_text(Source("k.mcu", text))
    assert kernel_names(text) == ["gemm", "map"]
    rng = np.random.default_rng(4)
    given = [rng.integers(-2, 3, shape).astype(float) for shape in ((5, 32), (144, 32), (144,))]
    for found, wanted in zip(
        compilation.interpret_lowered("heads", given), compilation.interpret("heads", given), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("size", [8, 16, 40])
def test_parts_of_run_time_extents(size: int, tmp_path: Path) -> None:
    open_dims = Program.of_text(OPEN, tmp_path)
    for seed, info in enumerate(open_dims.kernels):
        run(open_dims, info, dict.fromkeys(info.dims, size), seed)


def test_rows_picked_from_parts() -> None:
    compilation = compile_text(Source("k.mcu", PICKED))
    rng = np.random.default_rng(3)
    given = [rng.integers(-3, 4, (6, 10)).astype(float), np.array([5.0, 0.0, 3.0])]
    np.testing.assert_array_equal(
        compilation.interpret_lowered("picked", given), compilation.interpret("picked", given)
    )


@pytest.mark.parametrize(
    ("results", "body", "expected"),
    [
        # Nothing but the map, the reduction or the scan that the program ends in.
        ("f32[16, 24]", "return concat(x[:, :8], x[:, ::-1], axis=1)", ["map"]),
        ("f32[16]", "return sum(pad(x, 2, 2, mode=reflect), axis=1)", ["reduce"]),
        ("f32[16, 16]", "return cumsum(roll(x, 3, axis=1), axis=1)", ["scan"]),
        ("f32[16, 16]", "return tril(x @ x) * iota((16, 16), axis=0)", ["gemm", "map"]),
        # Parts of a product that meet are a pair, operands are read where they lie.
        ("f32[16, 8]", "y = x @ x.T\nreturn y[:, :8] * silu(y[:, 8:])", ["gemm"]),
        ("f32[16, 16]", "return x[:, 8:] @ x.T[8:]", ["gemm"]),
        ("f32[16, 16]", "return x[:, 1:9] @ x.T[8:]", ["map", "gemm"]),
        # Others are stored by one product, each to its own matrix, with what is computed of each.
        ("(a: f32[16, 8], b: f32[16, 8])", "y = x @ x.T\nreturn y[:, :8], relu(y[:, 8:])", ["gemm"]),
        ("(a: f32[16, 8], b: f32[16, 4])", "y = x @ x.T\nreturn 2 * y[:, :8], y[:, 8:12] / 3", ["gemm"]),
        # Rows of 8 bytes are none that TMA stores.
        ("(a: f32[16, 8], b: f32[16, 2])", "y = x @ x.T\nreturn y[:, :8], y[:, 8:10]", ["gemm", "gemm"]),
        ("f32[16, 2, 8]", "return reshape(relu(x @ x), (16, 2, 8))", ["gemm"]),
        ("f32[4, 64]", "return reshape(x * x, (4, 64))", ["map"]),
        (
            "(a: f32[16, 2, 8], b: f32[16])",
            "y = x * x\nreturn reshape(y, (16, 2, 8)), sum(y, axis=1)",
            ["reduce", "map"],
        ),
        # Interleaved pairs: parts of one element along an axis that is gone in the result.
        (
            "f32[16, 16]",
            "a = x[:, ::2]\nb = x[:, 1::2]\n"
            "return reshape(concat((a - b)[:, :, None], (a * b)[:, :, None], axis=2), (16, 16))",
            ["map"],
        ),
        # What is stored anyway is read from memory, not computed again.
        (
            "(a: f32[16, 16], b: f32[16, 8])",
            "y = exp(x @ x)\nreturn y, y[:, :8]",
            ["gemm", "map"],
        ),
    ],
)
def test_moving_elements_takes_no_kernel_of_its_own(results: str, body: str, expected: list[str]) -> None:
    assert kernel_names(f"kernel k(x: f32[16, 16]) -> {results} {{ {body} }}") == expected
