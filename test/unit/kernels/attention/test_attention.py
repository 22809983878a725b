"""Attention kernels: their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source

KERNELS = """
kernel plain[B, S, T](q: f16[B, S, 32], k: f16[B, T, 32], v: f16[B, T, 48]) -> f16[B, S, 48] {
    return attention(q, k, v)
}
kernel causal[B, S, T](q: bf16[B, S, 20], k: bf16[B, T, 20], v: bf16[B, T, 9]) -> bf16[B, S, 9] {
    return attention(q, k, v, causal=on, scale=-0.5)
}
kernel turned[B, H, S, T](q: f16[B, S, H, 16], k: f16[B, T, H, 16], v: f16[B, 1, T, 16]) -> f16[B, H, S, 16] {
    return attention(permute(q, (0, 2, 1, 3)), permute(k, (0, 2, 1, 3)), v, causal=on)
}
kernel across[S, T](q: f16[16, S], k: f16[T, 16], v: f16[T, 16]) -> f16[S, 16] {
    return attention(q.T, k, v)
}
kernel biased[B, G, S, T](
    q: f16[B, G, S, 16], k: f16[B, 1, T, 16], v: f16[B, 1, T, 16], key: f32[S, T], score: f16[G, 1, 1]
) -> f16[B, G, S, 16] {
    return attention(q, k, v, mask=key + score * 2)
}
kernel kept[B, S, T](q: f16[B, S, 16], k: f16[B, T, 16], v: f16[B, T, 16], m: s8[B, 1, T]) -> f16[B, S, 16] {
    return attention(q, k, v, mask=m > 0)
}
kernel near[S, T](q: f16[S, 16], k: f16[T, 16], v: f16[T, 16]) -> f16[S, 16] {
    i = iota((S, T), axis=0)
    j = iota((S, T), axis=1)
    return attention(q, k, v, mask=i - j < 5 and j - i < 9)
}
"""

LENGTHS = [(1, 1), (7, 1), (1, 9), (63, 65), (66, 130)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target="sm_80"))
    return Program.of(compilation, tmp_path_factory.mktemp("attention"))


@pytest.mark.parametrize("align", [1, 16], ids=["elements", "pieces"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("name", ["plain", "causal", "turned", "across", "biased", "kept", "near"])
def test_kernels_agree_with_the_interpreter(
    program: Program, name: str, lengths: tuple[int, int], align: int
) -> None:
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 2, "H": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    tolerance = 2**-7 if name == "causal" else 2**-9
    run(program, info, dims, seed=3, floats=floats, within=tolerance, align=align)


TILES = """
kernel plain[B, S, T](q: f16[B, S, 64], k: f16[B, T, 64], v: f16[B, T, 64]) -> f16[B, S, 64] {
    return attention(q, k, v)
}
kernel causal[B, H, S, T](
    q: bf16[B, S, H, 80], k: bf16[B, T, H, 80], v: bf16[B, T, H, 96]
) -> bf16[B, H, S, 96] {
    return attention(permute(q, (0, 2, 1, 3)), permute(k, (0, 2, 1, 3)), permute(v, (0, 2, 1, 3)), causal=on)
}
kernel biased[B, G, S, T](
    q: f16[B, G, S, 24], k: f16[B, 1, T, 24], v: f16[B, 1, T, 16], b: f32[S, T], w: f16[G, 1, 1]
) -> f16[B, G, S, 16] {
    return attention(q, k, v, mask=b + w * 2)
}
kernel capped[B, S, T](q: f16[B, S, 32], k: f16[B, T, 32], v: f16[B, T, 32]) -> f16[B, S, 32] {
    return softmax(tanh(q @ permute(k, (0, 2, 1)) * 0.25) * 3) @ v
}
"""


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compile_text(Source("k.mcu", TILES)), tmp_path_factory.mktemp("tiles"))


@pytest.mark.parametrize(
    ("lengths", "align"),
    # Where rows are not aligned, operands are read element by element.
    [((1, 1), 16), ((65, 129), 16), ((200, 300), 16), ((65, 129), 1)],
    ids=str,
)
@pytest.mark.parametrize("name", ["plain", "causal", "biased", "capped"])
def test_kernels_of_warpgroups_agree_with_the_interpreter(
    tiled: Program, name: str, lengths: tuple[int, int], align: int
) -> None:
    info = next(k for k in tiled.kernels if k.name == name)
    tiled.library.on_host_sm_count(2)  # blocks take several tiles
    sizes = {"B": 2, "H": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    tolerance = 2**-7 if name == "causal" else 2**-9
    run(tiled, info, dims, seed=3, floats=floats, within=tolerance, align=align)
