"""Attention without softmax: what is found, and that kernels agree with the interpreter, run on the host."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import ProgramOp

FOUND = """
kernel sigmoids[B, H, S, T](
    q: f16[B, H, S, 64], k: f16[B, H, T, 64], v: f16[B, H, T, 64], b: f32[H]
) -> f16[B, H, S, 64] {
    s = cast(q @ permute(k, (0, 1, 3, 2)), f32) * 0.125 + b[:, None, None]
    return cast(sigmoid(s), f16) @ v
}
kernel rectified[B, S, T](q: f16[B, S, 32], k: f16[B, T, 32], v: f16[B, T, 48]) -> f16[B, S, 48] {
    i = iota((S, T), axis=0)
    j = iota((S, T), axis=1)
    return relu(where(j <= i, q @ permute(k, (0, 2, 1)) * 0.25, -inf)) @ v
}
kernel linear[S, T](q: bf16[S, 64], k: bf16[T, 64], v: bf16[T, 64]) -> bf16[S, 64] {
    i = iota((S, T), axis=0)
    j = iota((S, T), axis=1)
    s = cast(q @ k.T, f32) * 0.01
    return cast(where(j <= i and i - j < 100, s, 0), bf16) @ v
}
kernel squared[B, G, S, T](
    q: f16[B, G, S, 16], k: f16[B, 1, T, 16], v: f16[B, 1, T, 24], n: s32[B]
) -> f16[B, G, S, 24] {
    s = cast(q @ permute(k, (0, 1, 3, 2)), f32) * 0.1
    seen = iota((B, 1, S, T), axis=3) < n[:, None, None, None] * 40
    return cast(where(seen, s * s, 0), f16) @ v
}
"""

LEFT = """
kernel layers[S](x: f16[S, 64], a: f16[256, 64], b: f16[64, 256]) -> f16[S, 64] { return relu(x @ a.T) @ b.T }
kernel given[S](x: f16[S, 64], a: f16[64, 256], b: f16[256, 64]) -> f16[S, 64] { return relu(x @ a) @ b }
kernel scaled[B, S, T](q: f16[B, S, 64], k: f16[B, T, 64], v: f16[B, T, 64]) -> f16[B, S, 64] {
    return (q @ permute(k, (0, 2, 1)) * 0.125) @ v
}
kernel shared[B, S, T](
    q: f16[B, S, 64], k: f16[B, T, 64], v: f16[B, T, 64]
) -> (y: f16[B, S, 64], w: f16[B, S, T]) {
    w = relu(q @ permute(k, (0, 2, 1)))
    return w @ v, w
}
"""


def _kinds(text: str) -> dict[str, list[str]]:
    """The kernels of each program."""
    compilation = compile_text(Source("k.mcu", text), Options(target="sm_80"))
    programs = (op for op in compilation.cutlass.body.block.ops if isinstance(op, ProgramOp))
    return {p.sym_name.data: [k.name for k in p.kernels] for p in programs}


def test_one_kernel_has_it_all() -> None:
    assert set(map(tuple, _kinds(FOUND).values())) == {("cutlass.attention",)}


def test_layers_and_products_stay_products() -> None:
    for name, kinds in _kinds(LEFT).items():
        assert "cutlass.attention" not in kinds, name


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compile_text(Source("k.mcu", FOUND)), tmp_path_factory.mktemp("weights"))


@pytest.mark.parametrize("name", ["rectified", "linear", "squared"])
def test_masks_become_ranges(program: Program, name: str) -> None:
    programs = str(program.compilation.cutlass).split("cutlass.program")
    text = next(text for text in programs if f"@{name}(" in text)
    assert " last %" in text and "mu.select" not in text


@pytest.mark.parametrize(
    ("align", "lengths"), [(16, (3, 600)), (16, (70, 150)), (16, (150, 20)), (1, (70, 150))], ids=str
)
@pytest.mark.parametrize("name", ["sigmoids", "rectified", "linear", "squared"])
def test_kernels_agree_with_the_interpreter(
    program: Program, name: str, align: int, lengths: tuple[int, int]
) -> None:
    program.library.on_host_sm_count(3)
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 2, "G": 3, "H": 2, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    tolerance = 2**-6 if name == "linear" else 2**-8
    run(program, info, dims, seed=3, floats=(-2.0, -0.75, 0.0, 0.5, 1.0), within=tolerance, align=align)
