"""Attention of e4m3: what is claimed, and that its kernels agree with the interpreter, run on the host."""

from __future__ import annotations

import math

import numpy as np
import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.cutlass.ops import ProgramOp

FOUND = """
kernel plain[B, S, T](q: e4m3[B, S, 64], k: e4m3[B, T, 64], v: e4m3[B, T, 96]) -> bf16[B, S, 96] {
    return attention(q, k, v)
}
kernel causal[H, S, T](
    q: e4m3[S, H, 128], k: e4m3[T, H, 128], v: e4m3[T, H, 24], s: f32[H]
) -> f32[H, S, 24] {
    return attention(permute(q, (1, 0, 2)), permute(k, (1, 0, 2)), permute(v, (1, 0, 2)), causal=on, sinks=s)
}
kernel shared[B, S, T](
    q: e4m3[B, 2, S, 32], k: e4m3[B, 1, T, 32], v: e4m3[1, T, 32], m: s32[B]
) -> f16[B, 2, S, 32] {
    return attention(q, k, v[:, None], mask=iota((B, 1, 1, T), axis=3) < m[:, None, None, None])
}
kernel scaled[S, T](q: e4m3[S, 160], k: e4m3[T, 160], v: e4m3[T, 16], s: f32[]) -> f32[S, 16] {
    return cast(softmax(q @ k.T * s * 0.01), e4m3) @ v
}
kernel sums[S, T](q: e4m3[S, 48], k: e4m3[T, 48], v: e4m3[T, 32]) -> (y: f32[S, 32], l: f32[S]) {
    return attention(q, k, v), attention_logsumexp(q, k)
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    made = Program.of(compile_text(Source("k.mcu", FOUND), Options()), tmp_path_factory.mktemp("e4m3"))
    made.library.on_host_sm_count(2)  # blocks take several tiles
    return made


def test_one_kernel_has_it_all(program: Program) -> None:
    programs = (op for op in program.compilation.cutlass.body.block.ops if isinstance(op, ProgramOp))
    assert {k.name for p in programs for k in p.kernels} == {"cutlass.attention"}


@pytest.mark.parametrize(
    ("name", "align", "lengths"),
    [
        *((name, 16, (135, 200)) for name in ("plain", "causal", "shared", "scaled", "sums")),
        *((name, 1, (20, 70)) for name in ("plain", "causal", "shared", "scaled", "sums")),
        ("plain", 16, (1, 9)),
        ("causal", 16, (70, 1)),
    ],
    ids=str,
)
def test_kernels_agree_with_the_interpreter(
    program: Program, name: str, align: int, lengths: tuple[int, int]
) -> None:
    """Tensors that begin at 16 bytes have kernels on wgmma, others are read element by element."""
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 2 if name == "shared" else 1, "H": 2, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    # Weights are rounded relative to the largest score so far, by 2**-4 at most.
    run(program, info, dims, seed=3, within=2**-4, align=align)


FEW = """
kernel heads[B, G, T](
    q: e4m3[B, 2, G, 1, 128], k: e4m3[B, 2, 1, T, 128], v: e4m3[B, 2, 1, T, 64]
) -> bf16[B, 2, G, 1, 64] {
    return attention(q, k, v)
}
kernel lengths[B, S, T](
    q: e4m3[B, S, 24], k: e4m3[B, T, 24], v: e4m3[B, T, 200], n: s32[B]
) -> f32[B, S, 200] {
    return attention(q, k, v, mask=iota((B, 1, T), axis=2) < n[:, None, None])
}
kernel wide[G, T](
    q: e4m3[G, 2, 256], k: e4m3[1, T, 256], v: e4m3[1, T, 256]
) -> (y: f32[G, 2, 256], l: f32[G, 2]) {
    return attention(q, k, v, causal=on), attention_logsumexp(q, k, causal=on)
}
kernel paged[B, P, N](
    q: e4m3[B, 2, 3, 1, 96], k: e4m3[P, 16, 2, 96], v: e4m3[P, 16, 2, 96], table: s32[B, N]
) -> f32[B, 2, 3, 1, 96] {
    keys = permute(reshape(gather(k, table), (B, N*16, 2, 96)), (0, 2, 1, 3))[:, :, None]
    values = permute(reshape(gather(v, table), (B, N*16, 2, 96)), (0, 2, 1, 3))[:, :, None]
    return attention(q, keys, values)
}
"""
SMALL_STAGES = "schedule wide for sm_90a { stages = 2 }"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Program:
    made = Program.of(compile_text(Source("k.mcu", FEW + SMALL_STAGES)), tmp_path_factory.mktemp("few"))
    made.library.on_host_sm_count(8)
    return made


@pytest.mark.parametrize("align", [16, 1], ids=["by TMA", "by threads"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("heads", {"B": 1, "G": 3, "T": 300}),
        ("heads", {"B": 1, "G": 9, "T": 1}),
        ("lengths", {"B": 2, "S": 1, "T": 170}),
        ("wide", {"G": 3, "T": 133}),
        ("paged", {"B": 2, "P": 9, "N": 5}),
    ],
    ids=str,
)
def test_few_queries_agree_with_the_interpreter(
    few: Program, name: str, sizes: dict[str, int], align: int
) -> None:
    info = next(k for k in few.kernels if k.name == name)
    run(few, info, sizes, seed=5, within=2**-4, align=align)


def test_few_queries_copy_nothing() -> None:
    text = compile_text(Source("k.mcu", FEW)).emit("cu")
    assert "_decode_tiles" in text and "_turn" in text  # `lengths` may have many
    only = compile_text(Source("k.mcu", FEW.partition("kernel lengths")[0])).emit("cu")
    assert "_decode_tiles" in only and "_turn" not in only


def test_pages_of_many_queries_are_copied() -> None:
    text = (
        FEW[FEW.index("kernel paged") :].replace("3, 1, 96", "3, S, 96").replace("[B, P, N]", "[B, P, N, S]")
    )
    found = compile_text(Source("k.mcu", text)).emit("cutlass")
    assert "cutlass.map" in found and "pages %" not in found
    found = compile_text(Source("k.mcu", FEW)).emit("cutlass")
    assert "cutlass.map" not in found and "pages %" in found


WIDE = """
kernel wide[S, T](q: e4m3[S, 272], k: e4m3[T, 272], v: e4m3[T, 272]) -> f32[S, 272] {
    return attention(q, k, v)
}
"""


def test_wide_rows_are_products_of_weights_that_keep_their_bits() -> None:
    """Weights of 600 keys are 2**-9 and less, which e4m3 has three numbers for unless they are multiplied."""
    compilation = compile_text(Source("k.mcu", WIDE), Options())
    assert "cutlass.attention" not in str(compilation.cutlass)
    rng = np.random.default_rng(0)
    q, k, v = (rng.choice([-1.0, -0.25, 0.5, 1.0], (n, 272)) for n in (16, 600, 600))
    scores = q @ k.T / math.sqrt(272)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights @ v / weights.sum(-1, keepdims=True)
    (found,) = compilation.interpret("wide", [q, k, v])
    assert np.linalg.norm(found - exact) < 2**-4 * np.linalg.norm(exact)


def test_other_tensors_of_eight_bits_are_refused() -> None:
    text = "kernel f[S](q: e5m2[S, 64]) -> f32[S, 64] { return attention(q, q, q) }"
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("k.mcu", text))
    assert [d.code for d in caught.value.diagnostics] == ["MU1103"]
