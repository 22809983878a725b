"""Attention of few queries with many keys: keys divided among blocks, run on the host."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.attention.tiles import decode_tile_of

KERNELS = """
kernel heads[B, H, S, T](q: f16[B, H, S, 64], k: f16[B, H, T, 64], v: f16[B, H, T, 48]) -> f16[B, H, S, 48] {
    return attention(q, k, v)
}
kernel groups[B, G, S, T](
    q: bf16[B, S, 2, G, 32], k: bf16[B, T, 2, 1, 32], v: bf16[B, T, 2, 1, 32]
) -> bf16[B, 2, G, S, 32] {
    keys = permute(k, (0, 2, 3, 1, 4))
    return attention(permute(q, (0, 2, 3, 1, 4)), keys, permute(v, (0, 2, 3, 1, 4)), scale=-0.25)
}
kernel lengths[B, G, S, T](
    q: f16[B, G, S, 24], k: f16[B, 1, T, 24], v: f16[B, 1, T, 200], n: s32[B]
) -> f16[B, G, S, 200] {
    seen = iota((B, 1, 1, T), axis=3) < n[:, None, None, None]
    return attention(q, k, v, mask=seen) * 2
}
kernel causal[S, T](q: f16[S, 20], k: f16[T, 20], v: f16[T, 9], b: f32[S, 1]) -> f32[S, 9] {
    return cast(attention(q, k, v, causal=on), f32) + b
}
kernel sinks[B, G, S, T](
    q: f16[B, 2, G, S, 64], k: f16[B, 2, 1, T, 64], v: f16[B, 2, 1, T, 64], s: f32[2, G]
) -> f16[B, 2, G, S, 64] {
    return attention(q, k, v, causal=on, scale=0.25, sinks=s * 3)
}
kernel one[H, T](q: f16[H, 1, 256], k: f16[H, T, 256], v: f16[H, T, 256]) -> f16[H, 1, 256] {
    return attention(q, k, v)
}
"""

FLOATS = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target=request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("decode"))


def _run(program: Program, name: str, sizes: dict[str, int], align: int, processors: int) -> None:
    program.library.on_host_sm_count(processors)
    info = next(k for k in program.kernels if k.name == name)
    tolerance = 2**-7 if info.outputs[0].dtype == "bf16" else 2**-9
    run(program, info, {d: sizes[d] for d in info.dims}, seed=3, floats=FLOATS, within=tolerance, align=align)


CASES: Sequence[tuple[str, dict[str, int]]] = (
    ("heads", {"B": 1, "H": 2, "S": 1, "T": 1000}),
    ("heads", {"B": 2, "H": 1, "S": 17, "T": 1100}),
    ("groups", {"B": 1, "G": 3, "S": 2, "T": 700}),
    ("groups", {"B": 1, "G": 9, "S": 2, "T": 129}),
    ("lengths", {"B": 3, "G": 8, "S": 1, "T": 300}),
    ("causal", {"S": 16, "T": 600}),
    ("causal", {"S": 5, "T": 3}),
    ("one", {"H": 1, "T": 513}),
    ("heads", {"B": 1, "H": 2, "S": 3, "T": 1}),
    ("sinks", {"B": 1, "G": 3, "S": 1, "T": 600}),
    ("sinks", {"B": 2, "G": 2, "S": 5, "T": 40}),
    ("sinks", {"B": 1, "G": 3, "S": 150, "T": 130}),
)


@pytest.mark.parametrize("align", [1, 16], ids=["elements", "pieces"])
@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_parts_agree_with_the_interpreter(
    program: Program, name: str, sizes: dict[str, int], align: int
) -> None:
    _run(program, name, sizes, align, processors=13)


def test_one_block_has_all_keys_where_there_are_many_sequences(program: Program) -> None:
    _run(program, "lengths", {"B": 5, "G": 2, "S": 1, "T": 260}, align=16, processors=2)


@pytest.mark.parametrize("name", ["heads", "groups"])
def test_steps_take_the_places_of_earlier_ones(program: Program, name: str) -> None:
    sizes = {"B": 2, "H": 1, "G": 3, "S": 1, "T": 1000}
    _run(program, name, sizes, align=16, processors=1)


@pytest.mark.parametrize("shared", [99 << 10, 110 << 10])
@pytest.mark.parametrize("widths", [(8, 8), (64, 64), (128, 128), (128, 256), (256, 256)], ids=str)
def test_tiles_fit_shared_memory(widths: tuple[int, int], shared: int) -> None:
    tile = decode_tile_of(*widths, shared)
    rows = [2 * (w // 16 * 16 + (16 if w % 16 else 0) + 8) for w in widths]
    assert 16 * rows[0] + tile.warps * tile.stages * 16 * sum(rows) <= shared
    assert tile.stages >= 2
    # TMA's form has chunks of 64 elements instead.
    chunks = sum(-(-w // 64) for w in widths)
    assert 16 * rows[0] + tile.warps * tile.stages * 16 * 128 * chunks <= shared
