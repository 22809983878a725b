"""Attention that is written out: what is found, and that it computes the same, run on the host."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import ProgramOp

FOUND = """
kernel capped[B, H, S, T](q: f16[B, H, S, 64], k: f16[B, H, T, 64], v: f16[B, H, T, 64]) -> f16[B, H, S, 64] {
    s = q @ permute(k, (0, 1, 3, 2)) * 0.125
    return softmax(tanh(s / 5) * 5) @ v
}
kernel near[S, T](q: bf16[S, 64], k: bf16[T, 64], v: bf16[T, 32]) -> bf16[S, 32] {
    i = iota((S, T), axis=0)
    j = iota((S, T), axis=1)
    s = cast(q @ k.T, f32) / 8
    return cast(softmax(where(j <= i and i - j < 70, s, -inf)), bf16) @ v
}
kernel biased[H, S, T](
    q: f16[S, H, 16], k: f16[T, H, 16], v: f16[T, H, 24], slope: f32[H], m: f16[S, T]
) -> f16[H, S, 24] {
    d = iota((S, T), axis=1) - iota((S, T), axis=0)
    s = 0.25 * cast(permute(q, (1, 0, 2)) @ permute(k, (1, 2, 0)), f32) + slope[:, None, None] * d
    return cast(softmax(s * s + m), f16) @ permute(v, (1, 0, 2))
}
kernel sunk[B, H, S, T](
    q: f16[B, H, S, 32], k: f16[B, H, T, 32], v: f16[B, H, T, 16], s: f16[H], m: f16[S, T]
) -> f16[B, H, S, 16] {
    sinks = broadcast(reshape(s, (1, H, 1, 1)), (B, H, S, 1))
    all = concat(q @ permute(k, (0, 1, 3, 2)) * 0.25 + m, sinks, axis=3)
    return softmax(all - cast(max(all, axis=3)[:, :, :, None], f16))[:, :, :, :T] @ v
}
kernel shared[H, G, S, T](
    q: f16[H, G, S, 16], k: f16[H, T, 16], v: f16[H, T, 16]
) -> (y: f16[H, G, S, 16], z: f16[H, G, S, 16]) {
    s = q @ permute(k, (0, 2, 1))[:, None] * 0.25
    t = q @ k.T[:, None] * 0.5
    return softmax(s) @ v[:, None], cast(sigmoid(t), f16) @ v[:, None]
}
kernel bare[S, T](q: f16[S, 16], k: f16[16, T], v: f16[T, 16]) -> f16[S, 16] { return softmax(q @ k) @ v }
"""

LEFT = """
kernel read[S, T](q: f16[S, 64], k: f16[T, 64], v: f16[T, 64]) -> (y: f16[S, 64], s: f16[S, T]) {
    s = q @ k.T
    return softmax(s) @ v, s
}
kernel weights[S, T](q: f16[S, 64], k: f16[T, 64], v: f16[T, 64]) -> (y: f16[S, 64], w: f16[S, T]) {
    w = softmax(q @ k.T)
    return w @ v, w
}
kernel columns[S](q: f16[S, 64], k: f16[S, 64], v: f16[S, 64]) -> f16[S, 64] {
    return softmax(q @ k.T, axis=0) @ v
}
kernel dropped[S, T](q: f16[S, 64], k: f16[T, 64], v: f16[T, 64], m: f16[S, T]) -> f16[S, 64] {
    return (softmax(q @ k.T) * m) @ v
}
kernel kept[S, T](q: f16[S, 64], k: f16[T, 64], v: f16[T+1, 64], s: f16[S, 1]) -> f16[S, 64] {
    return softmax(concat(q @ k.T, s, axis=1)) @ v
}
kernel wide[S, T](q: f16[S, 512], k: f16[T, 512], v: f16[T, 64]) -> f16[S, 64] { return softmax(q @ k.T) @ v }
kernel exact[S, T](q: f16[S, 64], k: f16[T, 64], v: f16[T, 64]) -> f32[S, 64] {
    return softmax(cast(q @ k.T, f32)) @ cast(v, f32)
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compile_text(Source("k.mcu", FOUND)), tmp_path_factory.mktemp("form"))


def _kinds(text: str) -> dict[str, list[str]]:
    """The kernels of each program."""
    compilation = compile_text(Source("k.mcu", text), Options(target="sm_80"))
    programs = (op for op in compilation.cutlass.body.block.ops if isinstance(op, ProgramOp))
    return {p.sym_name.data: [k.name for k in p.kernels] for p in programs}


def test_one_kernel_has_it_all() -> None:
    one = ["cutlass.attention"]
    # Keys whose elements are not contiguous are copied before.
    assert _kinds(FOUND) == {
        "capped": one,
        "near": one,
        "biased": one,
        "sunk": one,
        "shared": 2 * one,
        "bare": ["cutlass.map", *one],
    }


def test_scores_that_others_read_are_stored() -> None:
    for name, kinds in _kinds(LEFT).items():
        assert "cutlass.attention" not in kinds, name


@pytest.mark.parametrize("lengths", [(1, 9), (3, 200), (70, 150), (150, 20)], ids=str)
@pytest.mark.parametrize("align", [1, 16], ids=["elements", "pieces"])
@pytest.mark.parametrize("name", ["capped", "near", "biased", "sunk", "shared", "bare"])
def test_kernels_agree_with_the_interpreter(
    program: Program, name: str, align: int, lengths: tuple[int, int]
) -> None:
    program.library.on_host_sm_count(3)
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 1, "H": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    tolerance = 2**-7 if name == "near" else 2**-9
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0)
    run(program, info, dims, seed=3, floats=floats, within=tolerance, align=align)
