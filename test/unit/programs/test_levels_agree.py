"""Programs that random search found lowered wrongly, or not at all: they mean the same when lowered."""

from __future__ import annotations

import numpy as np
import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.library.signature import Manifest
from mucc.measure.run import run_on_cpu

PROGRAMS = {
    "triangles by diagonals whose sum with an index wraps": """
        kernel f(x: f32[8, 9]) -> f32[8, 9] {
            return tril(x, diagonal=2147483647) + triu(x, diagonal=-2147483647)
        }""",
    "numbers of narrow dtypes beside floats": """
        kernel f(x: f32[8]) -> f32[8] {
            return full((8,), 0.1, dtype=bf16) * x + full((8,), 300, dtype=u8)
        }""",
    "rows of a concatenation scattered": """
        kernel f[B](a: f32[2, B], b: f32[2, B], r: s32[4]) -> f32[16, B] {
            return scatter(concat(a, b, axis=0), r, 16)
        }""",
    "a matrix turned twice, the first time by a permutation": """
        kernel f(x: f32[8, 3]) -> f32[8, 3] { return permute(x + 1, (1, 0)).T }""",
    "an axis of a permuted tensor left out": """
        kernel f(x: f32[2, 8, 1]) -> f32[2, 8] { return permute(x + 1, (0, 2, 1))[:, 0, :] }""",
    "a kept sum turned": """
        kernel f(x: f16[8, 7]) -> f32[7, 1] {
            return softmax(permute(sum(x, axis=0, keepdims=on), (1, 0)), axis=0)
        }""",
    "a kept maximum reshaped and indexed": """
        kernel f(x: f32[5, 2, 4]) -> f32[1, 2, 4] {
            return reshape(max(x, axis=0, keepdims=on), (1, 1, 2, 4))[:, 0, :, :]
        }""",
    "largest elements over axes of extent 1 of batches that became rows": """
        kernel f(x: f32[2, 1, 16], w: f32[16, 1]) -> f32[2, 1, 1] {
            return amax(x @ w, axis=(1, 2), keepdims=on)
        }""",
    "sums over a row of batches that became rows": """
        kernel f(x: f32[3, 1, 16], w: f32[16, 1]) -> f32[3, 1] { return sum(x @ w, axis=1) }""",
    "conditions on vectors before a reshape": """
        kernel f(x: f32[4, 2] col_major, y: f32[1], z: f32[1]) -> (a: f32[4, 1, 2], b: f32[4, 1, 2]) {
            v = reshape(min(1, where(z > 2, x, y)), (4, 1, 2))
            return v * v, v
        }""",
    "a softmax stored twice, once with an axis more": """
        kernel f(x: f32[7, 1, 1, 4]) -> (a: f32[7, 1, 2, 4], b: f32[7, 1, 1, 4]) {
            v = softmax(x, axis=3)
            return repeat(v, 2, axis=2) + 1, v
        }""",
    "a triangle of what is pooled, before and behind": """
        kernel f(x: f32[2, 3, 8, 8]) -> f32[2, 3, 4, 8] {
            return triu(avg_pool(triu(x, 1), (2, 1), stride=(2, 1)), 2)
        }""",
    "a variance stored with two axes more": """
        kernel f(x: f32[16]) -> f32[1, 1] {
            return reshape(var(rms_norm(flip(x, axis=0), axis=0), axis=0, correction=0, keepdims=on), (1, 1))
        }""",
    "a convolution of a computed tensor with zeros around it": """
        kernel f(x: f32[2, 4, 5, 5], b: f32[4], u: f32[4, 4, 1, 1], w: f32[8, 4, 3, 3]) -> f32[2, 8, 5, 5] {
            return conv(pad(relu(conv(x, u) + b[:, None, None]), (1, 1), (1, 1)), w)
        }""",
    "a convolution of repeated elements with zeros around them": """
        kernel f(x: f32[2, 4, 5, 1], w: f32[8, 4, 3, 3]) -> f32[2, 8, 5, 5] {
            return conv(pad(broadcast(x, (2, 4, 5, 5)), (1, 1), (1, 1)), w)
        }""",
    "a convolution of repeated elements by repeated weights": """
        kernel f(x: f32[4, 5, 5], w: f32[1, 4, 1, 3]) -> f32[2, 8, 3, 3] {
            return conv(broadcast(x, (2, 4, 5, 5)), broadcast(w, (8, 4, 3, 3)))
        }""",
    "products of numbers repeated": """
        kernel f[M](x: f32[M, 6]) -> (y: f32[M, 4], z: f32[6], n: f32[M, 8]) {
            return x @ full((6, 4), 1), (full((1, M), 0.5) @ x)[0], x @ broadcast(M / 2, (6, 8))
        }""",
    "attention to equal keys by equal queries": """
        kernel f[M](v: f32[M, 8], k: f32[M, 8]) -> (y: f32[3, 8], l: f32[M]) {
            return attention(full((3, 8), 1), k, v), attention_logsumexp(v, full((5, 8), 0.5))
        }""",
    "scattered rows of 16 bits, returned in f32 and multiplied": """
        kernel f(x: f16[5, 8], r: s32[5], w: f16[8, 4]) -> (y: f32[6, 8], z: f16[6, 4], a: f16[6, 8]) {
            v = scatter(x, r, 6)
            return v, v @ w, attention(v, v, v)
        }""",
    "computed vectors stacked, and a number before one": """
        kernel f(x: f32[8], y: bf16[8], s: f32[]) -> (a: f32[3, 8], b: f32[9], c: f32[2]) {
            v = max(y, s)[None]
            return concat((x + 1)[None], v, v, axis=0), concat((s + 1)[None], x, axis=0),
                concat((s * x[0])[None], max(x)[None] + 1, axis=0)
        }""",
    "queries of 16 bits that are returned in f32, before attention with a mask and written out": """
        kernel f[N](x: bf16[N, 2, 8], k: bf16[N, 3, 8], m: f32[N, 2, 3]) -> (
            y: f32[N, 2, 8], a: bf16[N, 2, 8], b: bf16[N, 2, 8]
        ) {
            v = tanh(x)
            return v, attention(v, k, k, mask=m + v[..., :3]), cast(softmax(v @ k.T), bf16) @ k
        }""",
    "attention with one key for all": """
        kernel f(q: bf16[2, 4, 16], k: bf16[1, 16], v: bf16[2, 6, 8]) -> bf16[2, 4, 8] {
            return attention(q, broadcast(k, (2, 6, 16)), v)
        }""",
    "groups that share one weight": """
        kernel f(x: bf16[8, 16], w: bf16[1, 16, 8], o: s32[3]) -> bf16[8, 8] {
            return grouped_matmul(x, broadcast(w, (3, 16, 8)), o)
        }""",
    "one row for all groups": """
        kernel f(x: f32[5, 3], w: f32[1, 3, 2], o: s32[1]) -> f32[1, 2] {
            return grouped_matmul(sum(x, axis=0, keepdims=on), w, o)
        }""",
    "repeated rows picked by a repeated number": """
        kernel f(x: f32[6, 1], r: s32[1]) -> f32[5, 8] {
            return gather(broadcast(x, (6, 8)), broadcast(r, (5,)))
        }""",
    "one scale for two blocks": """
        kernel f(x: e4m3[8, 256], w: e4m3[128, 256], s: f32[8, 1], t: f32[1, 1]) -> f32[8, 128] {
            return matmul(x, w.T, scale_a=broadcast(s, (8, 2)), scale_b=broadcast(t, (1, 2)))
        }""",
    "columns picked from a concatenation of rows": """
        kernel f(x: f32[3, 7], y: f32[7, 7], r: s32[10, 1]) -> f32[10, 1] {
            return take_along(concat(x, y, axis=0), r, axis=1) + 1
        }""",
    "columns picked after a broadcast that repeats nothing": """
        kernel f(x: f32[4, 8], r: s32[4, 2]) -> f32[4, 2] {
            return take_along(broadcast(x, (4, 8)), r, axis=1)
        }""",
    "columns picked where all are the same": """
        kernel f(x: f32[4, 1], r: s32[4, 2]) -> f32[4, 2] {
            return take_along(broadcast(x + 1, (4, 8)), r, axis=1)
        }""",
    "rows by a part of an index, turned, strided and reshaped": """
        kernel f[M, N](x: f32[M, 8], r: s32[N], t: s32[6], u: s32[2, 3])
            -> (a: f32[N, 8], b: f32[3, 8], c: f32[6, 8], d: f32[3, 8], e: f32[9, 8]) where M >= 2 {
            return gather(x, r[::-1]), gather(x, t[::2]), gather(x, reshape(u, (6,))), gather(x, u[1]),
                scatter(x[:2], t[2:4], 9)
        }""",
    "a turned view reversed and turned again": """
        kernel f(x: f32[3, 4, 5]) -> f32[3, 4, 5] { return x.T[::-1].T }""",
    "a part of a turned view turned again": """
        kernel f(x: f32[3, 4, 5]) -> f32[3, 4, 1] { return x.T[:, 0:1].T }""",
    "one index of a turned view with an axis of extent 1": """
        kernel f(x: f32[3, 8, 5, 1]) -> f32[3, 1, 5] { return x.T[:, 0] }""",
    "random numbers of a permuted tensor": """
        kernel f(x: f32[3, 5]) -> f32[6, 5, 3] {
            return broadcast(permute(dropout(x, 0.25, 51), (1, 0)), (6, 5, 3))
        }""",
    "rows of one element scattered and reduced": """
        kernel f(x: f32[4, 1], r: s32[4]) -> f32[4] { return sum(scatter(x, r, 4), axis=-1) }""",
    "the edges of a frame of open extents repeated along both axes": """
        kernel f[M, N](x: f32[M, N]) -> f32[M+4, N+3] {
            return pad(pad(x, (1, 0), (0, 0), value=5), (1, 1), (2, 2), mode=replicate)
        }""",
    "a concatenation with an axis more, concatenated along it": """
        kernel f[M, N](a: f32[M, 5], b: f32[M, 1], c: f32[M, N, 6]) -> f32[M, N+1, 6] {
            return concat(concat(a, b, axis=1)[:, None], c, axis=1)
        }""",
    "a turned concatenation with an axis more, concatenated along it": """
        kernel f[M, N](a: f32[M, 5], b: f32[M, 1], c: f32[N, 6, 1, M]) -> f32[N+1, 6, 1, M] {
            return concat(permute(concat(a, b, axis=1)[None, None], (1, 3, 0, 2)), c, axis=0)
        }""",
    "zeros of a concatenation with an axis more, concatenated along it": """
        kernel f[M, N](a: e4m3[M, 5], b: e4m3[M, 1], c: e4m3[M, N, 3])
                -> (y: e4m3[M, N+1, 3], z: f32[M, 1, 3]) {
            v = concat(triu(a), b, axis=1)[::-1, None, ::2]
            return concat(v, c, axis=1), v
        }""",
    "numbers of rows and ends of groups that nothing reads": """
        kernel f(x: f32[6, 4], w: f32[3, 4, 8], r: s32[6], o: s32[3]) -> f32[6, 4] {
            _a = scatter(x, r, 9)
            _b = grouped_matmul(x, w, o)
            return x + 1
        }""",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_lowered_programs_mean_the_same(text: str):
    compilation = compile_text(Source("f.mcu", text))
    assert compilation.emit("cu")
    (info,) = Manifest.parse(compilation.manifest).kernels
    dims = {name: 7 if value is None else value for name, value in info.dims.items()}
    report = run_on_cpu(compilation, info, dims, 1, lambda _: None)
    assert [v for v in report.verdicts if not v.good] == []


ROUNDED = {
    "rows picked from repeated ones": """
        kernel f(x: bf16[1, 16], r: s32[5]) -> f32[5, 16] {
            return gather(broadcast(tanh(x), (12, 16))[9:10], r)
        }""",
    "elements taken from repeated ones": """
        kernel f(x: f16[1, 5], r: s32[4, 5]) -> f32[4, 5] {
            return take_along(broadcast(tanh(x), (3, 5)), r, axis=0)
        }""",
    "rows picked from picked ones": """
        kernel f(x: bf16[6, 5], r: s32[4], q: s32[3], w: bf16[5]) -> f32[3, 5] {
            return gather(gather(tanh(x), r), q) + w
        }""",
    "rows picked three times and reversed": """
        kernel f(x: bf16[6, 5], r: s32[4], q: s32[3], w: bf16[5]) -> f32[3, 5] {
            return gather(gather(gather(tanh(x), r), q), q)[:, ::-1] + w
        }""",
    "a part of scattered sums": """
        kernel f(x: f16[1, 6], r: s32[1]) -> f32[1, 6] {
            return scatter(cumsum(x, axis=1)[::-1], r, 5)[:1]
        }""",
    "the mean of whole axes": """
        kernel f(x: bf16[2, 8, 7, 5]) -> f32[2, 8, 1, 1] { return avg_pool(x, (7, 5)) }""",
    "the largest of what other kernels average": """
        kernel f(x: f16[16, 2, 4, 1]) -> (a: f32[16, 2, 1, 1], b: f32[16, 2, 1, 1]) {
            v = avg_pool(x, (3, 1), stride=(2, 1))
            return max_pool(v, (1, 1), stride=(2, 1)), v
        }""",
}
"""Programs of 16 bits with a result in f32, which kernels store something for."""


@pytest.mark.parametrize("text", ROUNDED.values(), ids=ROUNDED.keys())
def test_copies_for_other_kernels_round_nothing(text: str):
    compilation = compile_text(Source("f.mcu", text))
    (kernel,) = Manifest.parse(compilation.manifest).kernels
    rng = np.random.default_rng(7)
    inputs = [
        rng.integers(0, 1, a.extents({}))
        if a.indices
        else NumpyArrays().round_to(rng.standard_normal(a.extents({})), a.dtype)
        for a in kernel.inputs
    ]
    want, got = compilation.interpret("f", inputs)[0], compilation.interpret_lowered("f", inputs)[0]
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert np.abs(NumpyArrays().round_to(want, "bf16") - want).max() > 1e-4
