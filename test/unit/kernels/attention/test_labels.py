"""Masks by labels, such as those of documents: what kernels make of them, run on the host."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source

KERNELS = """
kernel documents[B, H, S, T](
    q: f16[B, H, S, 64], k: f16[B, H, T, 64], v: f16[B, H, T, 32], a: s32[B, S], b: s32[B, T]
) -> f16[B, H, S, 32] {
    return attention(q, k, v, mask=a[:, None, :, None] == b[:, None, None, :])
}
kernel packed[B, S, T](
    q: f16[B, S, 64], k: f16[B, T, 64], v: f16[B, T, 64], a: s32[S], b: s32[T]
) -> f16[B, S, 64] {
    i = iota((S, T), axis=0)
    j = iota((S, T), axis=1)
    return attention(q, k, v, mask=j <= i and a[:, None] == b[None])
}
kernel filled[H, S, T](
    q: f16[H, S, 16], k: f16[H, T, 16], v: f16[H, T, 16], a: s8[S], b: s32[H, T], w: f32[H]
) -> f16[H, S, 16] {
    d = iota((S, T), axis=1) - iota((S, T), axis=0)
    m = where(a[None, :, None] != b[:, None] + 1, -inf, w[:, None, None] * d)
    return attention(q, k, v, mask=m, causal=on)
}
kernel blocks[S, T](q: bf16[S, 64], k: bf16[T, 64], v: bf16[T, 64]) -> bf16[S, 64] {
    a = cast(floor(cast(iota((S, T), axis=0), f32) / 60), s32)
    return attention(q, k, v, mask=a == cast(floor(cast(iota((S, T), axis=1), f32) / 50), s32))
}
kernel two[S, T](
    q: f16[S, 64], k: f16[T, 64], v: f16[T, 64], a: s32[S], b: s32[T], c: s32[S]
) -> f16[S, 64] {
    return attention(q, k, v, mask=a[:, None] == b[None] and b[None] == c[:, None])
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compile_text(Source("k.mcu", KERNELS)), tmp_path_factory.mktemp("labels"))


def _lowered(program: Program, name: str) -> str:
    programs = str(program.compilation.cutlass).split("cutlass.program")
    return next(text for text in programs if f"@{name}(" in text)


@pytest.mark.parametrize("name", ["documents", "packed", "filled", "blocks"])
def test_labels_are_found(program: Program, name: str) -> None:
    text = _lowered(program, name)
    assert "mu.select" not in text and "mu.cmp" not in text
    assert " labels %" in text


def test_a_second_comparison_is_left(program: Program) -> None:
    text = _lowered(program, "two")
    assert "mu.select" in text and " labels %" in text


@pytest.mark.parametrize("lengths", [(5, 300), (150, 340), (330, 70)], ids=str)
@pytest.mark.parametrize("name", ["documents", "packed", "filled", "blocks", "two"])
def test_kernels_agree_with_the_interpreter(program: Program, name: str, lengths: tuple[int, int]) -> None:
    _run(program, name, lengths, 16)


@pytest.mark.parametrize("name", ["documents", "blocks"])
def test_kernels_that_read_elements_agree(program: Program, name: str) -> None:
    _run(program, name, (70, 150), 1)


def test_targets_without_warpgroups_skip_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target="sm_80"))
    other = Program.of(compilation, tmp_path_factory.mktemp("labels_sm_80"))
    for name in ("documents", "packed", "blocks"):
        _run(other, name, (100, 210), 16)


def _run(program: Program, name: str, lengths: tuple[int, int], align: int) -> None:
    program.library.on_host_sm_count(3)
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 2, "H": 2, "S": lengths[0], "T": lengths[1]}
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    dims, within = {d: sizes[d] for d in info.dims}, 2**-7 if name == "blocks" else 2**-9
    run(program, info, dims, seed=5, floats=floats, within=within, align=align)
