"""Log-sum-exps of attention: by the kernel of attention of the same scores, or by one of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source
from mucc.library.signature import KernelInfo

KERNELS = """
kernel plain[B, S, T](
    q: f16[B, S, 32], k: f16[B, T, 32], v: f16[B, T, 48]
) -> (y: f16[B, S, 48], l: f32[B, S]) {
    return attention(q, k, v), attention_logsumexp(q, k)
}
kernel before[B, S, T](
    q: f16[B, S, 64], k: f16[B, T, 64], v: f16[B, T, 64]
) -> (l: f32[B, S], y: f16[B, S, 64]) {
    l = attention_logsumexp(q, k, causal=on, scale=-0.5)
    return l, attention(q, k, v, causal=on, scale=-0.5)
}
kernel groups[B, G, S, T](
    q: f16[B, G, S, 16], k: f16[B, 1, T, 16], v: f16[B, 1, T, 16], n: s32[B], w: f16[G, 1, 1]
) -> (y: f16[B, G, S, 16], l: f32[B, G, S]) {
    seen = iota((B, 1, S, T), axis=3) < n[:, None, None, None]
    m = where(seen, w * 2, -inf)
    return attention(q, k, v, mask=m), attention_logsumexp(q, k, mask=m)
}
"""


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target=request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("sums"))


def _info(program: Program, name: str) -> KernelInfo:
    return next(k for k in program.kernels if k.name == name)


@pytest.mark.parametrize("lengths", [(1, 9), (70, 70), (66, 130), (3, 1000)], ids=str)
@pytest.mark.parametrize("name", ["plain", "before", "groups"])
def test_sums_agree_with_the_interpreter(program: Program, name: str, lengths: tuple[int, int]) -> None:
    program.library.on_host_sm_count(13 if lengths[1] > 500 else 2)
    info = _info(program, name)
    sizes = {"B": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    run(program, info, {d: sizes[d] for d in info.dims}, seed=3, floats=floats, within=2**-9, align=16)


ALONE = """
kernel alone[S, T](q: f16[S, 32], k: f16[T, 32]) -> f32[S] { return attention_logsumexp(q, k, causal=on) }
kernel other[S, T](
    q: f16[S, 32], k: f16[T, 32], v: f16[T, 32]
) -> (y: f16[S, 32], l: f32[S]) {
    return attention(q, k, v), attention_logsumexp(q, k, scale=2)
}
"""


def test_sums_of_other_scores_have_kernels_of_their_own() -> None:
    text = compile_text(Source("k.mcu", ALONE)).emit("stages")
    assert "mu.attention_logsumexp" not in text
    assert text.count(" attention ") == 1


MERGED = """
kernel merged[S, T](
    q: f16[S, 32], k: f16[T, 32], v: f16[T, 32], x: f16[T, 32], y: f16[T, 32]
) -> f32[S, 32] {
    a = attention_logsumexp(q, k)
    b = attention_logsumexp(q, 2 * x)
    m = max(a, b)
    first = exp(a - m)[:, None]
    second = exp(b - m)[:, None]
    return (first * attention(q, k, v) + second * attention(q, 2 * x, y)) / (first + second)
}
kernel after[S, T](q: f16[S, 32], k: f16[T, 32]) -> f16[S, 32] {
    l = attention_logsumexp(q, k)
    return attention(q, k, k * cast(l[:1], f16))
}
"""


def test_attention_moves_before_what_reads_its_log_sum_exps(tmp_path: Path) -> None:
    compilation = compile_text(Source("k.mcu", MERGED))
    text, other = compilation.emit("cutlass").split("@after")
    assert text.count("cutlass.attention ") == text.count("cutlass.score_sum") == 2
    assert "cutlass.gemm" not in text and "cutlass.score_sum" not in other
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(2)
    run(program, _info(program, "merged"), {"S": 5, "T": 70}, seed=3, floats=(-1.0, 0.5, 1.0), within=2**-8)


INFINITE = "".join(
    f"""
kernel {name}[B, G, S, T](
    q: {t}[B, G, S, {n}], k: {t}[B, 1, T, {n}], v: {t}[B, 1, T, {n}], w: f32[B, G, S], b: f32[G, S, T]
) -> (y: f32[B, G, S, {n}], l: f32[B, G, S]) {{
    m = where(w[:, :, :, None] > 2 and b > 2, inf, b) + where(w[:, :, :, None] < -1, -inf, 0)
    return cast(attention(q, k, v, mask=m), f32), attention_logsumexp(q, k, mask=m)
}}
"""
    for name, t, n in (
        ("halves", "f16", 64),
        ("eights", "e4m3", 64),
        ("wide", "bf16", 96),
        ("singles", "f32", 32),
    )
)


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def infinite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", INFINITE), Options(target=request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("infinite"))


@pytest.mark.parametrize("lengths", [(1, 9), (70, 70), (66, 300), (3, 1000)], ids=str)
@pytest.mark.parametrize("name", ["halves", "eights", "wide", "singles"])
def test_a_score_of_infinity_makes_its_row_infinite(
    infinite: Program, name: str, lengths: tuple[int, int]
) -> None:
    infinite.library.on_host_sm_count(13 if lengths[1] > 500 else 2)
    dims = {"B": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    floats = (-2.0, 0.0, 0.5, 1.0, 3.0)
    run(infinite, _info(infinite, name), dims, seed=3, floats=floats, within=2**-4, align=16)
