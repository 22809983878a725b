"""Extents that follow from dims, such as `2*N` and `K/128`: signatures, checks of calls, programs on the
host.
"""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hostlib import CUDA, DTYPES, Device, DType, Tensor
from on_host import Program, run

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.frontend.source import module_text
from mucc.library.signature import Manifest

TEXT = """
kernel halves[N, K](x: f32[2*N, K], s: f32[K/4]) -> (y: f32[N+N], z: f32[N, K]) {
    return max(x, axis=1), broadcast(sum(s) + N, (N, K))
}

kernel merged[B, S, H, D](x: f32[B, S, H*D], b: f32[D, 2]) -> (y: f32[B, S, H, D], z: f32[H*D*B*S]) {
    h = x * sum(b)
    return reshape(h, (B, S, H, D)) + 1, reshape(h, (B*S*D*H,))
}

kernel solved[M, N, K](x: f32[2*N-M, K/2+1], y: f32[M]) -> f32[N, K] {
    return broadcast(sum(x) + sum(y) * N, (N, K))
}

kernel minus[N](x: f32[N], y: f32[N-2]) -> f32[2*N-2] {
    return broadcast(sum(x) - sum(y), (2*(N-1),))
}

kernel product[M, N, K](x: bf16[M, K], w: bf16[2*N, K]) -> f32[M, 2*N] where K % 8 == 0 {
    return x @ w.T + sum(w)
}
"""


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return compile_text(Source("k.mcu", TEXT))


@pytest.fixture(scope="module")
def program(compilation: Compilation, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compilation, tmp_path_factory.mktemp("derived"))


DIMS = {
    "halves": [{"N": 3, "K": 8}, {"N": 1, "K": 4}, {"N": 40, "K": 100}],
    "merged": [{"B": 2, "S": 3, "H": 4, "D": 5}, {"B": 1, "S": 1, "H": 1, "D": 1}],
    "solved": [{"M": 3, "N": 4, "K": 6}, {"M": 1, "N": 1, "K": 2}],
    "minus": [{"N": 3}, {"N": 9}],
    "product": [{"M": 5, "N": 4, "K": 16}],
}


@pytest.mark.parametrize(("name", "dims"), [(n, d) for n, found in DIMS.items() for d in found], ids=str)
def test_programs_with_derived_extents_run(program: Program, name: str, dims: dict[str, int]) -> None:
    info = next(k for k in program.kernels if k.name == name)
    run(program, info, dims, 0)


@pytest.mark.parametrize(("name", "dims"), [(n, d) for n, found in DIMS.items() for d in found], ids=str)
def test_levels_agree(compilation: Compilation, name: str, dims: dict[str, int]) -> None:
    info = next(k for k in Manifest.parse(compilation.manifest).kernels if k.name == name)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-2, 3, arg.extents(dims)) for arg in info.inputs]
    want, got = (level(name, inputs) for level in (compilation.interpret, compilation.interpret_lowered))
    for one, other, arg in zip(want, got, info.outputs, strict=True):
        assert one.shape == arg.extents(dims)
        np.testing.assert_array_equal(one, other)


def called(program: Program, name: str, shapes: list[tuple[int, ...]]) -> str:
    """Call a kernel with empty tensors of these shapes; its error."""
    memory = np.zeros(4096, np.float32)
    where = memory.ctypes.data + -memory.ctypes.data % 256
    given: list[Tensor] = []
    for shape in shapes:
        n = len(shape)
        strides = [int(np.prod(shape[i + 1 :])) for i in range(n)]
        extents, steps = (ct.c_int64 * n)(*shape), (ct.c_int64 * n)(*strides)
        given.append(Tensor(where, Device(CUDA, 0), n, DType(*DTYPES["f32"], 1), extents, steps, 0))
    call: Any = getattr(program.library, f"mucc_{name}")
    call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
    failed = call((Tensor * len(given))(*given), len(given), None, 0, None)
    return program.library.mucc_last_error().decode() if failed else ""


@pytest.mark.parametrize(
    ("name", "shapes", "words"),
    [
        ("halves", [(6, 8), (2,), (6,), (3, 8)], ""),
        (
            "halves",
            [(7, 8), (2,), (6,), (3, 8)],
            "argument 'x' of halves: expected f32[2*N, K] with 2*N = 6",
        ),
        ("halves", [(6, 8), (3,), (6,), (3, 8)], "expected f32[K/4] with K/4 = 2, got f32[3]"),
        ("halves", [(6, 8), (2,), (7,), (3, 8)], "argument 'y' of halves: expected f32[2*N] with 2*N = 6"),
        ("halves", [(6, 9), (2,), (6,), (3, 9)], "MU6011: halves needs K % 4 == 0 (follows from the extents"),
        ("minus", [(2,), (1,), (2,)], "MU6011: minus needs N >= 3"),
        (
            "solved",
            [(1, 1), (1,), (1, 1)],
            "expected f32[2*N-M, (K+2)/2] with K from 1",
        ),
    ],
)
def test_calls_are_checked(program: Program, name: str, shapes: list[tuple[int, ...]], words: str) -> None:
    error = called(program, name, shapes)
    assert words in error if words else not error


def test_the_ir_and_the_text_come_back(compilation: Compilation) -> None:
    from builders import context
    from xdsl.parser import Parser

    text = str(compilation.mu)
    assert str(Parser(context(), text).parse_module()) == text
    again = compile_text(Source("k.mcu", module_text_without_promises(compilation)))
    assert again.manifest["kernels"][0]["args"] == compilation.manifest["kernels"][0]["args"]


def module_text_without_promises(compilation: Compilation) -> str:
    module = compilation.mu.clone()
    for op in module.body.block.ops:
        op.attributes.pop("promises", None)
    return module_text(module)


@pytest.mark.parametrize(
    ("signature", "code", "words"),
    [
        ("[N](x: f32[N % 2, N])", "MU1054", "an extent is no remainder"),
        ("[N, M](x: f32[N/M, N, M])", "MU1054", "no quotient of dims"),
        ("[N](x: f32[N, K*2])", "MU1005", "undeclared dim 'K'"),
        ("[N](x: f32[N, N-N])", "MU1049", "at least 1"),
        ("[N](x: f32[N, 1-N])", "MU1049", "at least 1"),
        ("[N, K=100](x: f32[N, K/64])", "MU1063", "K/64 is no whole number for K = 100"),
        ("[M, N](x: f32[M*N])", "MU1006", "the value of the dim 'M' does not follow"),
        ("[M, N](x: f32[M+N])", "MU1006", "the value of the dim 'M' does not follow"),
        ("[M, N](x: f32[N])", "MU1006", "no parameter has the dim 'M'"),
    ],
)
def test_bad_extents(signature: str, code: str, words: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("k.mcu", f"kernel f{signature} -> f32[] {{ return sum(x) }}"))
    first = caught.value.diagnostics[0]
    assert first.code == code and words in first.message


def test_two_spellings_are_one_extent() -> None:
    text = "kernel f[N, K](x: f32[N+N, K/4], y: f32[2*N, 2*K/8]) -> f32[3*N-N, K/2/2] { return x + y }"
    kernel = compile_text(Source("k.mcu", text)).manifest["kernels"][0]
    assert [arg["shape"] for arg in kernel["args"]] == [["2*N", "K/4"]] * 3  # type: ignore[typeddict-item]
    assert {"text": "K % 4 == 0", "why": "follows from the extents of its tensors"} in kernel["promises"]
