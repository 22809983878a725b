"""Attention of f32, multiplied as tf32: what is claimed, and that kernels agree, run on the host."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import ProgramOp

FOUND = """
kernel plain[B, S, T](q: f32[B, S, 64], k: f32[B, T, 64], v: f32[B, T, 96]) -> f32[B, S, 96] {
    return attention(q, k, v)
}
kernel causal[H, S, T](q: f32[S, H, 20], k: f32[T, H, 20], v: f32[T, H, 12], s: f32[H]) -> f32[H, S, 12] {
    return attention(permute(q, (1, 0, 2)), permute(k, (1, 0, 2)), permute(v, (1, 0, 2)), causal=on, sinks=s)
}
kernel rectified[B, S](
    q: f32[B, S, 128], k: f32[B, S, 128], v: f32[B, S, 128], m: s8[S, S]
) -> f32[B, S, 128] {
    return relu(where(m > 0, q @ permute(k, (0, 2, 1)) * 0.1, -inf)) @ v
}
kernel sums[S, T](q: f32[S, 32], k: f32[T, 32], v: f32[T, 32]) -> (y: f32[S, 32], l: f32[S]) {
    return attention(q, k, v), attention_logsumexp(q, k)
}
"""

PINNED = "".join(
    f"schedule {name} for sm_90a {{ mainloop = pingpong }}\n" for name in ("plain", "causal", "rectified")
)
"""Kernels that are on wgmma for few keys, too."""

LEFT = """
kernel exact[B, S](q: f32[B, S, 64], k: f32[B, S, 64], v: f32[B, S, 64]) -> f32[B, S, 64] {
    return matmul(softmax(matmul(q, permute(k, (0, 2, 1)), compute=f32)), v, compute=f32)
}
kernel wide[S](q: f32[S, 136]) -> f32[S, 136] { return attention(q, q, q) }
kernel one[H, T](q: f32[H, 1, 64], k: f32[H, T, 64], v: f32[H, T, 64]) -> f32[H, 1, 64] {
    return attention(q, k, v)
}
"""


def _kinds(text: str) -> dict[str, list[str]]:
    """The kernels of each program."""
    compilation = compile_text(Source("k.mcu", text))
    programs = (op for op in compilation.cutlass.body.block.ops if isinstance(op, ProgramOp))
    return {p.sym_name.data: [k.name for k in p.kernels] for p in programs}


def test_one_kernel_has_it_all() -> None:
    assert set(map(tuple, _kinds(FOUND).values())) == {("cutlass.attention",)}


def test_exact_products_and_wide_or_few_rows_are_decomposed() -> None:
    for name, kinds in _kinds(LEFT).items():
        assert "cutlass.attention" not in kinds, name


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The kernels on wgmma, or those on mma.sync, which read rows by elements or in pieces."""
    compilation = compile_text(Source("k.mcu", FOUND + PINNED), Options(target=request.param))
    made = Program.of(compilation, tmp_path_factory.mktemp("f32"))
    made.library.on_host_sm_count(2)  # blocks of kernels on wgmma take several tiles
    return made


@pytest.mark.parametrize("lengths", [(1, 9), (70, 150)], ids=str)
@pytest.mark.parametrize("align", [1, 16], ids=["elements", "whole rows"])
@pytest.mark.parametrize("name", ["plain", "causal", "rectified", "sums"])
def test_kernels_agree_with_the_interpreter(
    program: Program, name: str, align: int, lengths: tuple[int, int]
) -> None:
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 1, "H": 2, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    within = 2**-9 if name != "rectified" else 2**-7  # weights have no common scale there
    run(program, info, dims, seed=3, floats=(-2.0, -0.75, 0.0, 0.5, 1.0), within=within, align=align)


@pytest.mark.parametrize(("keys", "processors"), [(1024, 1), (1023, 1), (1024, 2)], ids=str)
def test_many_keys_and_tiles_are_transposed(program: Program, keys: int, processors: int) -> None:
    info = next(k for k in program.kernels if k.name == "sums")
    has_wgmma = program.compilation.options.target == "sm_90a"
    before = program.library.on_host_launches()
    program.library.on_host_sm_count(processors)
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0)
    run(program, info, {"S": 17, "T": keys}, seed=4, floats=floats, within=2**-9, align=16)
    is_transposed = has_wgmma and keys == 1024 and processors == 1
    assert program.library.on_host_launches() - before == (2 if is_transposed else 1)
